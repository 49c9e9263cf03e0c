// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

/// Marks a function that runs on the host and, where a device compiler reads it, on the device.
#if defined(__CUDACC__) || defined(__HIPCC__)
#define DPA4_HD __host__ __device__
#else
#define DPA4_HD
#endif
