# SPDX-License-Identifier: GPL-2.0-or-later
# Kernels of hopper_stack.cuh: direction, part and StackPlan (columns of the part, warpgroups that share
# them, times 64 edges, columns of a product, of one with the gates' matrix, channels of a focus
# stream).
set(DPA4_HOPPER_STACKS
  forward:kScalar:64:1:4:64:64:32
  forward:kScalar:96:1:3:96:96:32
  forward:kScalar:128:1:3:128:128:32
  forward:kScalar:256:1:2:128:128:64
  forward:kScalar:320:2:1:160:160:64
  forward:kScalar:384:2:1:192:96:64
  forward:kVector:64:1:4:64:32:32
  forward:kVector:128:1:3:128:64:32
  forward:kVector:192:1:2:192:96:32
  forward:kVector:384:2:1:192:96:64
  forward:kVector:512:2:1:128:128:64
  forward:kVector:640:2:1:80:80:64
  backward:kScalar:64:1:3:64:64:32
  backward:kScalar:96:1:2:96:96:32
  backward:kScalar:128:1:2:64:64:32
  backward:kScalar:256:2:1:64:64:64
  backward:kScalar:320:2:1:160:80:64
  backward:kScalar:384:2:1:192:96:64
  backward:kVector:64:1:3:64:32:32
  backward:kVector:128:1:2:128:64:32
  backward:kVector:192:1:2:96:96:32
  backward:kVector:384:2:1:192:96:64
  backward:kVector:512:2:1:128:128:64
  backward:kVector:640:2:1:80:80:64)
