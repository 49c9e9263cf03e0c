// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/math/float_trig.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>

namespace dpa4::math {
namespace {

/// The library's result where it is a neighbor of the nearest float.
struct Deviation {
  float argument, result;
};

// clang-format off
constexpr Deviation kSineDeviations[] = {  // by argument
    {0x1.4f1a6cp-2f, 0x1.49276ep-2f}, {0x1.cb91f6p-2f, 0x1.bc4c08p-2f},
    {0x1.0c1524p+0f, 0x1.bb67aep-1f}, {0x1.2d97c8p+0f, 0x1.d906bep-1f},
    {0x1.55ce28p+0f, 0x1.f1da7ap-1f}, {0x1.58ad78p+0f, 0x1.f329c2p-1f},
    {0x1.7bc89cp+0f, 0x1.fe0d3ap-1f}, {0x1.a876cep+0f, 0x1.fe0d3ap-1f},
    {0x1.c463acp+0f, 0x1.f6297ep-1f}, {0x1.e5e65p+0f, 0x1.e4d408p-1f},
    {0x1.10dea8p+1f, 0x1.b185d6p-1f}, {0x1.6b7548p+1f, 0x1.30a498p-2f},
    {0x1.b10e76p+1f, -0x1.ea1e6ep-3f}, {0x1.c463acp+1f, -0x1.87de2cp-2f},
    {0x1.cffd34p+1f, -0x1.dbe068p-2f}, {0x1.d524fep+1f, -0x1.0p-1f},
    {0x1.1664bap+2f, -0x1.deba78p-1f}, {0x1.180cf2p+2f, -0x1.e344b2p-1f},
    {0x1.0ea90ap+3f, 0x1.a55e18p-1f}, {0x1.1664bap+3f, 0x1.5384bep-1f},
    {0x1.2106cap+3f, 0x1.87de34p-2f}, {0x1.2b7f9ep+3f, 0x1.0be3fep-4f},
    {0x1.551654p+3f, -0x1.e344b4p-1f}, {0x1.69e956p+3f, -0x1.e6f0e4p-1f},
    {0x1.69e958p+3f, -0x1.e6f0dap-1f}, {0x1.7330f6p+3f, -0x1.a55e24p-1f},
    {0x1.78fdbcp+3f, -0x1.6a09cep-1f}, {0x1.8087ecp+3f, -0x1.0b84ecp-1f},
    {0x1.9eb0b2p+3f, 0x1.87de1p-2f}, {0x1.e28c76p+3f, 0x1.2cf20cp-1f},
    {0x1.156d44p+4f, -0x1.ff10dap-1f}, {0x1.457812p+4f, 0x1.fe6bf6p-1f},
    {0x1.599342p+4f, 0x1.87dda8p-2f}, {0x1.7c21fap+4f, -0x1.f6297ap-1f},
    {0x1.8a6408p+4f, -0x1.dbdfd6p-2f}, {0x1.9ad2dcp+4f, 0x1.08e09cp-1f},
    {0x1.b7d2bp+4f, 0x1.6a09bep-1f}, {0x1.baf6eep+4f, 0x1.1c73acp-1f},
    {0x1.bd0f18p+4f, 0x1.c4e752p-2f}, {0x1.cdd06ap+4f, -0x1.1c73bp-1f},
    {0x1.d9ee84p+4f, -0x1.f329c6p-1f}, {0x1.dc7992p+4f, -0x1.fee75cp-1f},
    {0x1.dc8e32p+4f, -0x1.ff10dep-1f}, {0x1.e1b5fcp+4f, -0x1.ee8dd4p-1f},
    {0x1.056168p+5f, 0x1.e6f0cep-1f}, {0x1.0acb3p+5f, 0x1.deba88p-1f},
    {0x1.12934p+5f, 0x1.de18c6p-3f}, {0x1.1958dap+5f, -0x1.25abd4p-1f},
    {0x1.1c317cp+5f, -0x1.a55e14p-1f}, {0x1.2298eap+5f, -0x1.f6297ep-1f},
    {0x1.2c2498p+5f, -0x1.71289p-3f}, {0x1.346652p+5f, 0x1.80f14p-1f},
    {0x1.55ce28p+5f, -0x1.e6f0ccp-1f}, {0x1.582dcep+5f, -0x1.a367eep-1f},
    {0x1.5cb78p+5f, -0x1.87ddccp-2f}, {0x1.63b996p+5f, 0x1.dbe02cp-2f},
    {0x1.6ada9ep+5f, 0x1.f6299p-1f}, {0x1.709d12p+5f, 0x1.bb6788p-1f},
    {0x1.8512fep+5f, -0x1.ff10e2p-1f}, {0x1.89f4acp+5f, -0x1.b48cfcp-1f},
    {0x1.908d96p+5f, -0x1.8f8b16p-3f}, {0x1.02d1a4p+6f, 0x1.e8d11ep-1f},
};

constexpr Deviation kCosineDeviations[] = {  // by argument
    {0x1.921fb6p-3f, 0x1.f6297ep-1f}, {0x1.7330f6p-1f, 0x1.7f3cccp-1f},
    {0x1.ba5616p-1f, 0x1.4c8472p-1f}, {0x1.37a56p+1f, -0x1.8553eep-1f},
    {0x1.38c356p+1f, -0x1.8836fep-1f}, {0x1.41b2f8p+1f, -0x1.9e377ap-1f},
    {0x1.88121ep+1f, -0x1.fe6bf2p-1f}, {0x1.ba5616p+1f, -0x1.e6f0ep-1f},
    {0x1.becde8p+2f, 0x1.8836eep-1f}, {0x1.197c98p+3f, -0x1.9e3774p-1f},
    {0x1.25371ep+3f, -0x1.ee8dd2p-1f}, {0x1.657186p+3f, 0x1.63a1fcp-3f},
    {0x1.670a08p+3f, 0x1.c7b972p-3f}, {0x1.8a6408p+3f, 0x1.f11f54p-1f},
    {0x1.b7d2bp+3f, 0x1.87ddf8p-2f}, {0x1.ec9a0ap+3f, -0x1.e6f0dep-1f},
    {0x1.fe6354p+3f, -0x1.f11f44p-1f}, {0x1.005a9ep+4f, -0x1.e6f0dap-1f},
    {0x1.0c1524p+4f, -0x1.ffffe6p-2f}, {0x1.25371ep+4f, 0x1.bb67ap-1f},
    {0x1.38c356p+4f, 0x1.8836d2p-1f}, {0x1.534acp+4f, -0x1.6a09dp-1f},
    {0x1.709d1p+4f, -0x1.000018p-1f}, {0x1.7330f8p+4f, -0x1.6b1d1ap-2f},
    {0x1.a952c6p+4f, 0x1.edb688p-4f}, {0x1.aed8d8p+4f, -0x1.c7bac4p-3f},
    {0x1.c96a76p+4f, -0x1.e6f0f4p-1f}, {0x1.ccc456p+4f, -0x1.bb679ep-1f},
    {0x1.25371ep+5f, 0x1.ffffa4p-2f}, {0x1.52534cp+5f, -0x1.edb5d4p-4f},
    {0x1.63b996p+5f, 0x1.c55a8cp-1f}, {0x1.709d12p+5f, -0x1.000042p-1f},
    {0x1.7330f6p+5f, -0x1.7f3cc8p-1f},
};
// clang-format on

template <std::size_t n>
const Deviation* find(const Deviation (&deviations)[n], float argument) {
  const auto* found = std::lower_bound(
      std::begin(deviations), std::end(deviations), argument,
      [](const Deviation& deviation, float value) { return deviation.argument < value; });
  return found != std::end(deviations) && found->argument == argument ? found : nullptr;
}

}  // namespace

// Through double: rounding twice gives the nearest float unless the sine is within 2e-9 units of
// the middle of two floats.
float reference_sin(float x) {
  const Deviation* deviation = find(kSineDeviations, x);
  return deviation ? deviation->result : static_cast<float>(std::sin(static_cast<double>(x)));
}

float reference_cos(float x) {
  const Deviation* deviation = find(kCosineDeviations, x);
  return deviation ? deviation->result : static_cast<float>(std::cos(static_cast<double>(x)));
}

}  // namespace dpa4::math
