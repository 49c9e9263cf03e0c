# SPDX-License-Identifier: GPL-2.0-or-later
# What the kernels are compiled for; all other sizes are run-time quantities. A source file takes as many
# entries of a list as compile in a few seconds.
set(DPA4_CUDA_DEGREES 1:6 2:6 3:6 4:2 5:2 6:1)  # lmax, and operations a file
set(DPA4_CUDA_DEGREE_OPERATIONS
  zonal_sum:ZonalSum zonal_sum_backward:ZonalSumBackward
  rotate_mix:RotateMix rotate_mix_backward:RotateMixBackward
  rotate_back_sum:RotateBackSum rotate_back_sum_backward:RotateBackSumBackward)

# Products of matrices: how they are computed, in which precision, and how many a file.
set(DPA4_CUDA_ARITHMETICS kPlain:float:1 kPlain:double:2 kSplit:float:1)
# What a product reads and writes.
set(DPA4_CUDA_STACK_PRODUCTS
  LoadRows:StoreScalars LoadRows:StoreGates LoadRows:StoreGated LoadRows:StoreSum
  LoadRows:StoreGateGradients LoadRows:StoreScalarGradient LoadScalarGradients:StoreSum
  LoadGated:StoreSum)
set(DPA4_CUDA_GRID_PRODUCTS
  LoadCoefficients:Fields LoadFieldProduct:StoreCoefficients LoadFieldGradient:StoreCoefficients)
# Products without fields in memory: sixteens of coefficients and passes.
set(DPA4_CUDA_GRID_CHAINS 1:1 2:1 3:1 4:1 5:1 6:1 7:1 1:2 2:2 3:2 4:2 5:2 6:2 7:2)
