#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# usage: scripts_test.sh TORCH_DIR [LAMMPS_SOURCE_DIR LAMMPS_LIBRARY_DIR]
# What scripts/ promise without fetching anything: usage, one-line errors, and the use of a LibTorch
# and a LAMMPS that the user brought.
set -euo pipefail

scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../scripts" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset TORCH_DIR LAMMPS_SOURCE_DIR LAMMPS_LIBRARY_DIR
export DPA4_CACHE_DIR=$work/cache
failures=0

# expect STATUS PATTERN COMMAND...: the exit status, and a pattern in what it says
expect() {
  local status=$1 pattern=$2 code=0
  shift 2
  "$@" >"$work/said" 2>&1 </dev/null || code=$?
  if ((code != status)) || ! grep -q -e "$pattern" "$work/said"; then
    printf 'FAILED: %s\n  exit status %d, expected %d and "%s"; it said:\n' "$*" "$code" "$status" "$pattern"
    sed 's/^/  | /' "$work/said"
    failures=$((failures + 1))
  fi
}
# the last command said one line
one_line() {
  if (($(wc -l <"$work/said") != 1)); then
    echo "FAILED: more than one line:" && cat "$work/said"
    failures=$((failures + 1))
  fi
}

for script in bootstrap demo test; do
  expect 0 "^usage: scripts/$script" "$scripts/$script" --help
  expect 1 "unknown option '--nonsense'" "$scripts/$script" --nonsense
  one_line
  expect 1 "^error: --torch: no folder '$work/none'" "$scripts/$script" --torch "$work/none"
  one_line
done
expect 1 "needs a value" "$scripts/demo" --output
expect 1 "needs a value" "$scripts/test" --preset
expect 1 "needs a value" "$scripts/bootstrap" --cache
expect 1 "is not a number of processes" "$scripts/bootstrap" --jobs many
expect 1 "has no include/ATen/ATen.h" "$scripts/bootstrap" --torch "$work"
expect 1 "has no src/lammpsplugin.h" "$scripts/bootstrap" --lammps-source "$work"
expect 1 "prepares a LAMMPS of its own" "$scripts/bootstrap" --kokkos --lammps-source "$work"
expect 1 "needs the source tree" "$scripts/bootstrap" --lammps-build "$work"

expect 0 "^usage: scripts/gpu_kokkos" "$scripts/gpu_kokkos" --help
expect 1 "unknown option '--nonsense'" "$scripts/gpu_kokkos" --nonsense
one_line
expect 1 "^error: --lammps-source is needed" "$scripts/gpu_kokkos"
one_line
expect 1 "has no src/lammpsplugin.h" "$scripts/gpu_kokkos" --lammps-source "$work"
one_line
mkdir -p "$work/lammps/src"
touch "$work/lammps/src/lammpsplugin.h"
expect 1 "has no lib/kokkos" "$scripts/gpu_kokkos" --lammps-source "$work/lammps"
one_line
expect 1 "has no liblammps.so and lmp" "$scripts/gpu_kokkos" --lammps-source "$work/lammps" --lammps-build "$work"
one_line
expect 1 "needs a value" "$scripts/gpu_kokkos" --torch

if (($# == 3)); then
  expect 1 "has no liblammps.so and lmp" \
    "$scripts/bootstrap" --torch "$1" --lammps-source "$2" --lammps-build "$work"
  expect 0 "^export LAMMPS_LIBRARY_DIR=$3\$" \
    "$scripts/bootstrap" --torch "$1" --lammps-source "$2" --lammps-build "$3" --jobs 3
  expect 0 "^export TORCH_DIR=$1\$" \
    env TORCH_DIR="$1" LAMMPS_SOURCE_DIR="$2" LAMMPS_LIBRARY_DIR="$3" "$scripts/bootstrap"
  fetched=$(find "$work/cache" -mindepth 1 -not -name logs -not -name '.*')
  if [[ $fetched ]]; then
    echo "FAILED: something was fetched although everything was given: $fetched"
    failures=$((failures + 1))
  fi
fi

((failures == 0)) && echo "scripts: all as promised"
