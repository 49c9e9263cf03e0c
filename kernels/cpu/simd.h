// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/cpu/isa.h"

#include <cstdint>
#include <cstring>

#if defined(__FMA__)
#include <immintrin.h>
#endif

#include "src/math/elementary.h"

namespace dpa4::cpu::DPA4_CPU_ISA {

#if defined(__AVX512F__)
inline constexpr int kSimdBytes = 64;
inline constexpr int kRegisters = 32;
#elif defined(__AVX__)
inline constexpr int kSimdBytes = 32;
inline constexpr int kRegisters = 16;
#else
inline constexpr int kSimdBytes = 16;
inline constexpr int kRegisters = 16;
#endif

/// Numbers in a register.
template <class Real>
inline constexpr int kLanes = kSimdBytes / static_cast<int>(sizeof(Real));

template <class Real>
struct IntegerOf;
template <>
struct IntegerOf<float> {
  using Type = std::int32_t;
};
template <>
struct IntegerOf<double> {
  using Type = std::int64_t;
};

/// kWidth numbers that are computed with together. Arithmetic is lane by lane.
template <class Real, int kWidth>
struct Simd {
  static constexpr int kSize = kWidth;
  using Element = Real;
  using Integer = typename IntegerOf<Real>::Type;
  typedef Real Native __attribute__((vector_size(kWidth * sizeof(Real))));
  typedef Integer Mask __attribute__((vector_size(kWidth * sizeof(Real))));

  Native v;

  Simd() = default;
  DPA4_CPU_INLINE Simd(Native native) : v(native) {}
  // x - 0 is x, signed zeros included, so these compile to a broadcast.
  DPA4_CPU_INLINE explicit Simd(double x) : v(static_cast<Real>(x) - Native{}) {}
  DPA4_CPU_INLINE explicit Simd(float x) : v(static_cast<Real>(x) - Native{}) {}
  DPA4_CPU_INLINE explicit Simd(int x) : v(static_cast<Real>(x) - Native{}) {}

  static DPA4_CPU_INLINE Simd load(const Real* from) {
    Simd result;
    std::memcpy(&result.v, from, sizeof(Native));
    return result;
  }
  DPA4_CPU_INLINE void store(Real* to) const { std::memcpy(to, &v, sizeof(Native)); }
  DPA4_CPU_INLINE Real lane(int i) const { return v[i]; }
  DPA4_CPU_INLINE Real sum() const {
    if constexpr (kWidth == 1) {
      return v[0];
    } else {
      Simd<Real, kWidth / 2> low, high;
      std::memcpy(&low.v, &v, sizeof(low.v));
      std::memcpy(&high.v, reinterpret_cast<const char*>(&v) + sizeof(low.v), sizeof(low.v));
      return Simd<Real, kWidth / 2>(low.v + high.v).sum();
    }
  }
};

template <class Real, int kWidth>
using SimdMask = typename Simd<Real, kWidth>::Mask;

#define DPA4_CPU_OPERATOR(op)                                                                  \
  template <class Real, int kWidth>                                                            \
  DPA4_CPU_INLINE Simd<Real, kWidth> operator op(Simd<Real, kWidth> a, Simd<Real, kWidth> b) { \
    return a.v op b.v;                                                                         \
  }                                                                                            \
  template <class Real, int kWidth>                                                            \
  DPA4_CPU_INLINE Simd<Real, kWidth>& operator op##=(Simd<Real, kWidth>& a,                    \
                                                     Simd<Real, kWidth> b) {                   \
    a.v = a.v op b.v;                                                                          \
    return a;                                                                                  \
  }
DPA4_CPU_OPERATOR(+)
DPA4_CPU_OPERATOR(-)
DPA4_CPU_OPERATOR(*)
DPA4_CPU_OPERATOR(/)
#undef DPA4_CPU_OPERATOR

template <class Real, int kWidth>
DPA4_CPU_INLINE Simd<Real, kWidth> operator-(Simd<Real, kWidth> a) {
  return -a.v;
}

/// a b + c, rounded once where the instruction set has that. Left to itself a compiler fuses some
/// chains of sums and not others of the same numbers.
template <class Real, int kWidth>
DPA4_CPU_INLINE Simd<Real, kWidth> multiply_add(Simd<Real, kWidth> a, Simd<Real, kWidth> b,
                                                Simd<Real, kWidth> c) {
  [[maybe_unused]] constexpr bool kSingle = sizeof(Real) == sizeof(float);
  [[maybe_unused]] constexpr int kBytes = kWidth * static_cast<int>(sizeof(Real));
#if defined(__AVX512F__)
  if constexpr (kBytes == 64 && kSingle) return _mm512_fmadd_ps(a.v, b.v, c.v);
  if constexpr (kBytes == 64 && !kSingle) return _mm512_fmadd_pd(a.v, b.v, c.v);
#endif
#if defined(__FMA__)
  if constexpr (kBytes == 32 && kSingle) return _mm256_fmadd_ps(a.v, b.v, c.v);
  if constexpr (kBytes == 32 && !kSingle) return _mm256_fmadd_pd(a.v, b.v, c.v);
#endif
#if defined(__FP_FAST_FMA) && defined(__FP_FAST_FMAF)
  if constexpr (kWidth == 1 && kSingle) {
    return Simd<Real, 1>(__builtin_fmaf(a.v[0], b.v[0], c.v[0]));
  }
  if constexpr (kWidth == 1 && !kSingle) {
    return Simd<Real, 1>(__builtin_fma(a.v[0], b.v[0], c.v[0]));
  }
#endif
  return a * b + c;
}

/// A comparison's lanes, for select_of.
template <class Real, int kWidth>
struct Comparison {
  typename Simd<Real, kWidth>::Mask mask;
};

#define DPA4_CPU_COMPARE(op)                                                   \
  template <class Real, int kWidth>                                            \
  DPA4_CPU_INLINE Comparison<Real, kWidth> operator op(Simd<Real, kWidth> a,   \
                                                       Simd<Real, kWidth> b) { \
    return {a.v op b.v};                                                       \
  }
DPA4_CPU_COMPARE(>)
DPA4_CPU_COMPARE(<)
DPA4_CPU_COMPARE(>=)
DPA4_CPU_COMPARE(<=)
#undef DPA4_CPU_COMPARE

template <class Real, int kWidth>
DPA4_CPU_INLINE Simd<Real, kWidth> select_of(Comparison<Real, kWidth> condition,
                                             Simd<Real, kWidth> a, Simd<Real, kWidth> b) {
  return condition.mask ? a.v : b.v;
}

template <class Real, int kWidth>
DPA4_CPU_INLINE Simd<Real, kWidth> sqrt_of(Simd<Real, kWidth> x) {
  for (int i = 0; i < kWidth; ++i) x.v[i] = math::sqrt_of(static_cast<Real>(x.v[i]));
  return x;
}

/// Coefficients of the elementary functions below.
template <class Real>
struct ElementaryConstants;

template <>
struct ElementaryConstants<float> {
  static constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  static constexpr int kMantissa = 23, kBias = 127;
  static constexpr float kLowest = -87.3f, kHighest = 88.7f;
  static constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  // (e^r - 1 - r) / r^2 on |r| <= ln(2) / 2
  static constexpr int kExpTerms = 6;
  static constexpr float kExp[kExpTerms] = {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f,
                                            4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f};
  static constexpr float kHalfPi[3] = {1.5703125f, 4.83751296997e-4f, 7.54978995489e-8f};
  static constexpr int kSinTerms = 3;
  static constexpr float kSin[kSinTerms] = {-1.9515295891e-4f, 8.3321608736e-3f, -1.6666654611e-1f};
  static constexpr int kCosTerms = 3;
  static constexpr float kCos[kCosTerms] = {2.443315711809948e-5f, -1.388731625493765e-3f,
                                            4.166664568298827e-2f};
};

template <>
struct ElementaryConstants<double> {
  static constexpr double kRound = 6755399441055744.0;  // 1.5 * 2^52
  static constexpr int kMantissa = 52, kBias = 1023;
  static constexpr double kLowest = -708.0, kHighest = 709.0;
  static constexpr double kLn2High = 6.93145751953125e-1, kLn2Low = 1.42860682030941723212e-6;
  static constexpr int kExpTerms = 12;
  static constexpr double kExp[kExpTerms] = {
      1.0 / 6227020800.0, 1.0 / 479001600.0, 1.0 / 39916800.0, 1.0 / 3628800.0,
      1.0 / 362880.0,     1.0 / 40320.0,     1.0 / 5040.0,     1.0 / 720.0,
      1.0 / 120.0,        1.0 / 24.0,        1.0 / 6.0,        0.5};
  static constexpr double kHalfPi[3] = {1.57079625129699707031, 7.54978941586159635335e-8,
                                        5.39030285815811905290e-15};
  static constexpr int kSinTerms = 6;
  static constexpr double kSin[kSinTerms] = {
      1.58962301576546568060e-10, -2.50507477628578072866e-8, 2.75573136213857245213e-6,
      -1.98412698295895385996e-4, 8.33333333332211858878e-3,  -1.66666666666666307295e-1};
  static constexpr int kCosTerms = 6;
  static constexpr double kCos[kCosTerms] = {
      -1.13585365213876817300e-11, 2.08757008419747316778e-9,  -2.75573141792967388112e-7,
      2.48015872888517045348e-5,   -1.38888888888730564116e-3, 4.16666666666665929218e-2};
};

/// e^x, relative error below 2e-7 (float) and 3e-16 (double); 0 below the smallest normal number,
/// the largest values saturate instead of becoming infinite. Polynomials of Cephes (S. Moshier) and
/// Taylor.
template <class Real, int kWidth>
DPA4_CPU_INLINE Simd<Real, kWidth> exp_of(Simd<Real, kWidth> x) {
  using S = Simd<Real, kWidth>;
  using K = ElementaryConstants<Real>;
  const Comparison<Real, kWidth> tiny = x < S(K::kLowest);
  x = select_of(tiny, S(K::kLowest), x);
  x = select_of(x > S(K::kHighest), S(K::kHighest), x);
  const S shifted = x * S(1.44269504088896340736) + S(K::kRound);
  const S n = shifted - S(K::kRound);
  const S r = (x - n * S(K::kLn2High)) - n * S(K::kLn2Low);
  S sum(K::kExp[0]);
  for (int i = 1; i < K::kExpTerms; ++i) sum = sum * r + S(K::kExp[i]);
  sum = sum * r * r + r + S(1);
  const typename S::Mask power =
      __builtin_convertvector(n.v, typename S::Mask) + typename S::Integer(K::kBias);
  const S scale(reinterpret_cast<typename S::Native>(power << K::kMantissa));
  return select_of(tiny, S(0), sum * scale);
}

/// sin x and cos x, |x| below 1e4, absolute error below 1e-7 (float) and 2e-16 (double) beyond that
/// of the argument's own rounding. Quadrant reduction after Cody and Waite, polynomials of Cephes.
template <class Real, int kWidth>
DPA4_CPU_INLINE Simd<Real, kWidth> sin_of_quadrant(Simd<Real, kWidth> x, int offset) {
  using S = Simd<Real, kWidth>;
  using K = ElementaryConstants<Real>;
  const S n = (x * S(0.63661977236758134308) + S(K::kRound)) - S(K::kRound);
  const S r = ((x - n * S(K::kHalfPi[0])) - n * S(K::kHalfPi[1])) - n * S(K::kHalfPi[2]);
  const typename S::Mask quadrant =
      __builtin_convertvector(n.v, typename S::Mask) + typename S::Integer(offset);
  const S r2 = r * r;
  S sine(K::kSin[0]);
  for (int i = 1; i < K::kSinTerms; ++i) sine = sine * r2 + S(K::kSin[i]);
  sine = sine * r2 * r + r;
  S cosine(K::kCos[0]);
  for (int i = 1; i < K::kCosTerms; ++i) cosine = cosine * r2 + S(K::kCos[i]);
  cosine = cosine * r2 * r2 - S(0.5) * r2 + S(1);
  const typename S::Mask zero{};
  const S value((quadrant & typename S::Integer(1)) != zero ? cosine.v : sine.v);
  return (quadrant & typename S::Integer(2)) != zero ? -value.v : value.v;
}
template <class Real, int kWidth>
DPA4_CPU_INLINE Simd<Real, kWidth> sin_of(Simd<Real, kWidth> x) {
  return sin_of_quadrant(x, 0);
}
template <class Real, int kWidth>
DPA4_CPU_INLINE Simd<Real, kWidth> cos_of(Simd<Real, kWidth> x) {
  return sin_of_quadrant(x, 1);
}

template <class Real, int kWidth>
DPA4_CPU_INLINE Simd<Real, kWidth> tanh_of(Simd<Real, kWidth> x) {
  for (int i = 0; i < kWidth; ++i) x.v[i] = math::tanh_of(static_cast<Real>(x.v[i]));
  return x;
}

/// The elementary functions of one number with the bits of the vector versions.
template <class Real>
DPA4_CPU_INLINE Real scalar_exp(Real x) {
  return exp_of(Simd<Real, 1>(x)).lane(0);
}

/// body(Simd type tag, c) over c = 0..n-1 in steps of full registers, then one by one.
template <class Real, class Body>
DPA4_CPU_INLINE void for_lanes(int n, Body&& body) {
  constexpr int kWidth = kLanes<Real>;
  int c = 0;
  for (; c + kWidth <= n; c += kWidth) body(Simd<Real, kWidth>(), c);
  for (; c < n; ++c) body(Simd<Real, 1>(), c);
}

/// sum over c of term(Simd type tag, c), c = 0..n-1: one register of partial sums, then its lanes.
template <class Real, class Term>
DPA4_CPU_INLINE Real sum_lanes(int n, Term&& term) {
  constexpr int kWidth = kLanes<Real>;
  Real total = 0;
  int c = 0;
  if (n >= kWidth) {
    Simd<Real, kWidth> partial(0);
    for (; c + kWidth <= n; c += kWidth) partial += term(Simd<Real, kWidth>(), c);
    total = partial.sum();
  }
  for (; c < n; ++c) total += term(Simd<Real, 1>(), c).lane(0);
  return total;
}

template <class Real>
DPA4_CPU_INLINE Real dot(const Real* a, const Real* b, int n) {
  return sum_lanes<Real>(
      n, [&](auto tag, int c) __attribute__((always_inline)) {
        using S = decltype(tag);
        return S::load(a + c) * S::load(b + c);
      });
}

/// y[0:n] += factor x[0:n].
template <class Real>
DPA4_CPU_INLINE void add_scaled(Real* y, const Real* x, Real factor, int n) {
  for_lanes<Real>(
      n, [&](auto tag, int c) __attribute__((always_inline)) {
        using S = decltype(tag);
        (S::load(y + c) + S(factor) * S::load(x + c)).store(y + c);
      });
}

/// body(integral_constant lmax), lmax = 1..6.
template <class Body>
DPA4_CPU_INLINE void with_degree(int lmax, Body&& body) {
  switch (lmax) {
    case 1:
      body(std::integral_constant<int, 1>{});
      break;
    case 2:
      body(std::integral_constant<int, 2>{});
      break;
    case 3:
      body(std::integral_constant<int, 3>{});
      break;
    case 4:
      body(std::integral_constant<int, 4>{});
      break;
    case 5:
      body(std::integral_constant<int, 5>{});
      break;
    case 6:
      body(std::integral_constant<int, 6>{});
      break;
    default:
      break;
  }
}

}  // namespace dpa4::cpu::DPA4_CPU_ISA
