#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# usage: install_test.sh BUILD_DIR [LMP]
# `cmake --install` into an empty folder gives a dpa4 tool and a plugin that work from there: the tool
# reads an installed potential, and LAMMPS finds the plugin by LAMMPS_PLUGIN_PATH and runs the installed
# example.
set -euo pipefail

build=$1
lmp=${2:-}
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT

cmake --install "$build" --prefix "$prefix" >"$prefix/install.log"
share=$prefix/share/dpa4-lammps
for file in "$share/potentials/sic_mini.pt" "$share/examples/sic_nve/in.sic_nve" \
  "$prefix/share/doc/dpa4-lammps/LICENSE"; do
  [[ -s $file ]] || { echo "FAILED: not installed: $file"; exit 1; }
done

if [[ -x $prefix/bin/dpa4 ]]; then
  "$prefix/bin/dpa4" info "$share/potentials/sic_mini.pt" | grep -q "mini"
  echo "install: dpa4 info works"
fi

if [[ $lmp ]]; then
  plugin=$(find "$prefix" -name dpa4plugin.so)
  [[ $plugin ]] || { echo "FAILED: dpa4plugin.so is not installed"; exit 1; }
  cd "$share/examples/sic_nve"
  sed -i 's/^run .*/run 0/' in.sic_nve
  LAMMPS_PLUGIN_PATH=$(dirname "$plugin") "$lmp" -in in.sic_nve -log none >"$prefix/screen.txt" 2>&1 ||
    { tail -n 20 "$prefix/screen.txt"; exit 1; }
  # potential energy of the installed example's first step [eV], as the reference implementation gives it
  awk '$1 == "0" && NF == 6 { found = 1; if ($4 < -1364.91 || $4 > -1364.87) bad = 1; print "install: PotEng", $4 }
       END { exit !(found && !bad) }' "$prefix/screen.txt"
fi
