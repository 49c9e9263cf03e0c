#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# usage: kokkos_same_bits.sh LMP PLUGIN MODEL_FILE "SWITCHES" "OTHER SWITCHES"
# Two runs of dpa4/kk with the same or another number of threads: energy, virial, positions, forces and values of
# atoms are the same bit for bit. (LAMMPS' own sum of the kinetic energy is not, so its /kk style takes no part.)
# SWITCHES hold "t N", the number of threads.
set -euo pipefail
# shellcheck source=tests/lammps/kokkos_sic.sh
. "$(dirname "${BASH_SOURCE[0]}")/kokkos_sic.sh"

lmp=$1 plugin=$2 model=$3
switches=("$4" "$5")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sic_input "$plugin" "$model" >"$work/in"
cat >>"$work/in" <<INPUT
suffix off
velocity all create 2500 8 mom yes loop geom
suffix on
compute energies all pe/atom
compute stresses all stress/atom NULL virial
fix 1 all nve
thermo 1
compute virial all pressure NULL virial
thermo_style custom step pe c_virial[1] c_virial[2] c_virial[4]
thermo_modify format float %.17g
dump 1 all custom 4 $work/dump.\${run} id x y z fx fy fz c_energies c_stresses[1] c_stresses[4]
dump_modify 1 sort id format float %.17g
run 12
INPUT
for run in 0 1; do
  threads=${switches[run]##* t }
  # shellcheck disable=SC2086  # several words
  OMP_NUM_THREADS=${threads%% *} "$lmp" ${switches[run]} -in "$work/in" -var run $run -log "$work/log.$run" -screen none </dev/null
  sed -n '/^ *Step/,/^Loop/{/^ *[0-9]/p}' "$work/log.$run" >"$work/thermo.$run"
  grep -q 'dpa4/kk' "$work/log.$run" || { echo "the style was not dpa4/kk"; exit 1; }
done
(($(wc -l <"$work/thermo.0") == 13)) || { echo "no thermodynamic output"; cat "$work/log.0"; exit 1; }
cmp "$work/thermo.0" "$work/thermo.1"
cmp "$work/dump.0" "$work/dump.1"
