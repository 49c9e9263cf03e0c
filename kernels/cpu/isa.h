// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

/// The kernels of this folder are compiled once for every instruction set, each time in a namespace
/// of its own: dpa4::cpu::DPA4_CPU_ISA. A function that two of the copies share would be merged by
/// the linker, and then run with the wrong instructions. So the formulas of src/math are forced
/// inline here and nothing else of the project or of the standard library is called but plain C
/// functions.
#include "src/base/host_device.h"
#undef DPA4_HD
#define DPA4_HD __attribute__((always_inline))

#ifndef DPA4_CPU_ISA
#error "DPA4_CPU_ISA must name the instruction set"
#endif

/// Inlined whatever the optimizer thinks: small functions on registers.
#define DPA4_CPU_INLINE __attribute__((always_inline)) inline
