# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# For the scripts of this folder to source.

# sic_input PLUGIN MODEL_FILE: input for 64 atoms of silicon carbide with dpa4, up to the pair style.
sic_input() {
  cat <<INPUT
plugin load $1
units metal
lattice diamond 4.37 origin 0.02 0.02 0.02
region box block 0 2 0 2 0 2
create_box 2 box
create_atoms 1 box basis 5 2 basis 6 2 basis 7 2 basis 8 2
mass 1 28.0855
mass 2 12.011
neighbor 0.3 bin
neigh_modify every 1 delay 0 check yes
pair_style dpa4 precision float32
pair_coeff * * $2 Si C
INPUT
}
