// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/film.h"
#include "kernels/cpu/rms_norm_silu.h"

namespace dpa4::cpu::DPA4_CPU_ISA {

template <class Real>
void film_gram(const kernels::FilmGramArgs<Real>& args, kernels::Stream) {
  for (int n = 0; n < args.n_nodes; ++n) {
    const Real* sum = args.sum + static_cast<std::int64_t>(n) * 4 * args.width;
    Real* gram = args.gram + static_cast<std::int64_t>(n) * args.width * args.axes;
    for (int j = 0; j < args.width; ++j) {
      for (int a = 0; a < args.axes; ++a) {
        Real total = 0;
        for (int k = 0; k < 4; ++k) total += sum[k * args.width + j] * sum[k * args.width + a];
        gram[j * args.axes + a] = total;
      }
    }
  }
}

template <class Real>
void film_gram_backward(const kernels::FilmGramBackwardArgs<Real>& args, kernels::Stream) {
  for (int n = 0; n < args.n_nodes; ++n) {
    const Real* sum = args.sum + static_cast<std::int64_t>(n) * 4 * args.width;
    const Real* grad = args.grad_gram + static_cast<std::int64_t>(n) * args.width * args.axes;
    Real* out = args.grad_sum + static_cast<std::int64_t>(n) * 4 * args.width;
    for (int k = 0; k < 4; ++k) {
      const Real* row = sum + k * args.width;
      for (int j = 0; j < args.width; ++j) {
        Real total = 0;
        for (int a = 0; a < args.axes; ++a) total += grad[j * args.axes + a] * row[a];
        out[k * args.width + j] = total;
      }
      for (int a = 0; a < args.axes; ++a) {
        Real total = 0;
        for (int j = 0; j < args.width; ++j) total += grad[j * args.axes + a] * row[j];
        out[k * args.width + a] += total;
      }
    }
  }
}

template <class Real>
void film_apply(const kernels::FilmApplyArgs<Real>& args, kernels::Stream) {
  const int channels = args.channels;
  for (int n = 0; n < args.n_nodes; ++n) {
    const Real* scale = args.film + static_cast<std::int64_t>(n) * 2 * channels;
    const Real* shift = scale + channels;
    const Real* table = args.type_table + static_cast<std::int64_t>(args.type[n]) * channels;
    Real* x = args.x + n * args.ldx;
    const Real scale_factor =
        args.scale_norm != nullptr ? inverse_rms(scale, channels, args.eps) : Real(1);
    const Real shift_factor =
        args.shift_norm != nullptr ? inverse_rms(shift, channels, args.eps) : Real(1);
    for (int c = 0; c < channels; ++c) {
      const Real s = scale[c] * scale_factor * (args.scale_norm ? args.scale_norm[c] : Real(1));
      const Real t = shift[c] * shift_factor * (args.shift_norm ? args.shift_norm[c] : Real(1));
      x[c] = table[c] * (Real(1) + static_cast<Real>(args.scale_strength) * math::tanh_of(s)) +
             static_cast<Real>(args.shift_strength) * math::tanh_of(t);
    }
  }
}

/// Gradient of one half of the logits from grad = dE/d tanh(normalised), in `grad` itself.
template <class Real>
DPA4_CPU_INLINE void film_half_backward(const Real* logit, const Real* norm, double eps,
                                        int channels, Real* grad) {
  const Real factor = norm != nullptr ? inverse_rms(logit, channels, eps) : Real(1);
  for (int c = 0; c < channels; ++c) {
    const Real scale = norm != nullptr ? norm[c] : Real(1);
    const Real value = math::tanh_of(logit[c] * factor * scale);
    grad[c] *= (Real(1) - value * value) * scale;
  }
  if (norm == nullptr) return;
  const Real mean = dot(grad, logit, channels) / channels;
  for (int c = 0; c < channels; ++c) {
    grad[c] = factor * grad[c] - factor * factor * factor * mean * logit[c];
  }
}

template <class Real>
void film_apply_backward(const kernels::FilmApplyBackwardArgs<Real>& args, kernels::Stream) {
  constexpr int kMaxChannels = 1024;
  const int channels = args.channels;
  Real film[2 * kMaxChannels];  // a copy: grad_film may be film
  for (int n = 0; n < args.n_nodes; ++n) {
    const Real* table = args.type_table + static_cast<std::int64_t>(args.type[n]) * channels;
    const Real* grad_x = args.grad_x + n * args.ldx;
    Real* grad = args.grad_film + static_cast<std::int64_t>(n) * 2 * channels;
    std::memcpy(film, args.film + static_cast<std::int64_t>(n) * 2 * channels,
                2 * channels * sizeof(Real));
    for (int c = 0; c < channels; ++c) {
      grad[c] = grad_x[c] * table[c] * static_cast<Real>(args.scale_strength);
      grad[channels + c] = grad_x[c] * static_cast<Real>(args.shift_strength);
    }
    film_half_backward(film, args.scale_norm, args.eps, channels, grad);
    film_half_backward(film + channels, args.shift_norm, args.eps, channels, grad + channels);
  }
}

}  // namespace dpa4::cpu::DPA4_CPU_ISA
