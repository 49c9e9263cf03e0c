# SPDX-License-Identifier: GPL-2.0-or-later
# What the kernels are compiled for; all other sizes are run-time quantities.
set(DPA4_CUDA_DEGREES 1 2 3 4 5 6)  # lmax
