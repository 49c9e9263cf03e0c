#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# usage: kokkos_transfers.sh LMP PLUGIN MODEL_FILE COUNTER SWITCH...
# What crosses between device and host in the steps of dpa4/kk, as kokkos_transfers.so counts it: the pair style
# and its model copy no more than 64 bytes at once between rebuilds of the neighbor list. Prints the counts.
set -euo pipefail
# shellcheck source=tests/lammps/kokkos_sic.sh
. "$(dirname "${BASH_SOURCE[0]}")/kokkos_sic.sh"

lmp=$1 plugin=$2 model=$3 counter=$4
shift 4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sic_input "$plugin" "$model" >"$work/in"
cat >>"$work/in" <<INPUT
velocity all create 2500 8 mom yes loop geom
fix 1 all nve
thermo 100
run 40
INPUT
OMP_NUM_THREADS=1 KOKKOS_TOOLS_LIBS=$counter LD_PRELOAD=$counter "$lmp" "$@" -in "$work/in" -log none \
  </dev/null >"$work/out" 2>&1 || { cat "$work/out"; exit 1; }
grep '^transfers' "$work/out" || { echo "Kokkos did not load $counter"; exit 1; }
awk '
  $1 == "transfers" && $4 == "steps" { steps[$2] = $5 }
  $1 == "transfers" && $2 == "ordinary" && $3 != "LAMMPS:" && $4 == "steps" && $11 > 64 { large = 1 }
  END {
    if (steps["ordinary"] < 10 || steps["rebuild"] < 1) { print "too few steps of a kind"; exit 1 }
    if (large) { print "a copy of more than 64 bytes in an ordinary step"; exit 1 }
  }' "$work/out"
