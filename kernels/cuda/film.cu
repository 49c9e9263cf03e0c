// SPDX-License-Identifier: GPL-2.0-or-later
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/norm.cuh"
#include "kernels/cuda/operations.h"

namespace dpa4::cuda {

template <class Real>
void film_gram(const kernels::FilmGramArgs<Real>& args, kernels::Stream stream) {
  for_rows("film_gram", args.n_nodes, args.width * args.axes, stream, [=] __device__(int n, int k) {
    const Real* sum = args.sum + static_cast<std::int64_t>(n) * 4 * args.width;
    const int j = k / args.axes, a = k % args.axes;
    Real total = 0;
    for (int i = 0; i < 4; ++i) total += sum[i * args.width + j] * sum[i * args.width + a];
    args.gram[static_cast<std::int64_t>(n) * args.width * args.axes + k] = total;
  });
}

template <class Real>
void film_gram_backward(const kernels::FilmGramBackwardArgs<Real>& args, kernels::Stream stream) {
  for_rows(
      "film_gram_backward", args.n_nodes, 4 * args.width, stream, [=] __device__(int n, int k) {
        const std::int64_t at = static_cast<std::int64_t>(n) * 4 * args.width;
        const Real* row = args.sum + at + k / args.width * args.width;
        const Real* grad = args.grad_gram + static_cast<std::int64_t>(n) * args.width * args.axes;
        const int j = k % args.width;
        Real total = 0;
        for (int a = 0; a < args.axes; ++a) total += grad[j * args.axes + a] * row[a];
        if (j < args.axes) {
          for (int i = 0; i < args.width; ++i) total += grad[i * args.axes + j] * row[i];
        }
        args.grad_sum[at + k] = total;
      });
}

/// Factor of a half of the logits of a node, see FilmApplyArgs.
template <class Real>
__device__ Real film_factor(const Real* logit, const Real* norm, int channels, double eps,
                            int lane) {
  return norm != nullptr ? inverse_rms(logit, channels, eps, lane) : Real(1);
}

template <class Real>
void film_apply(const kernels::FilmApplyArgs<Real>& args, kernels::Stream stream) {
  for_warps("film_apply", args.n_nodes, stream, [=] __device__(int n, int lane) {
    const int channels = args.channels;
    const Real* scale = args.film + static_cast<std::int64_t>(n) * 2 * channels;
    const Real* shift = scale + channels;
    const Real* table = args.type_table + static_cast<std::int64_t>(args.type[n]) * channels;
    const Real scale_factor = film_factor(scale, args.scale_norm, channels, args.eps, lane);
    const Real shift_factor = film_factor(shift, args.shift_norm, channels, args.eps, lane);
    for (int c = lane; c < channels; c += kWarp) {
      const Real s = scale[c] * scale_factor * (args.scale_norm ? args.scale_norm[c] : Real(1));
      const Real t = shift[c] * shift_factor * (args.shift_norm ? args.shift_norm[c] : Real(1));
      args.x[n * args.ldx + c] =
          table[c] * (Real(1) + static_cast<Real>(args.scale_strength) * math::tanh_of(s)) +
          static_cast<Real>(args.shift_strength) * math::tanh_of(t);
    }
  });
}

/// Gradient of one half of a node's logits; upstream(c) = dE/d tanh(normalised logit). `grad` may
/// be `logit`: a lane writes an element after its last use.
template <class Real, class Upstream>
__device__ void film_half_backward(const Real* logit, const Real* norm, double eps, int channels,
                                   int lane, Real* grad, const Upstream& upstream) {
  const Real factor = film_factor(logit, norm, channels, eps, lane);
  const auto normalised = [&](int c) {
    const Real scale = norm != nullptr ? norm[c] : Real(1);
    const Real value = math::tanh_of(logit[c] * factor * scale);
    return upstream(c) * (Real(1) - value * value) * scale;
  };
  Real pull = 0;
  if (norm != nullptr) {
    for (int c = lane; c < channels; c += kWarp) pull += normalised(c) * logit[c];
    pull = factor * factor * factor * warp_sum(pull) / channels;
  }
  for (int c = lane; c < channels; c += kWarp) {
    const Real value = factor * normalised(c) - pull * logit[c];
    grad[c] = value;
  }
}

template <class Real>
__device__ void film_node_backward(const kernels::FilmApplyBackwardArgs<Real>& args, int n,
                                   int lane) {
  const int channels = args.channels;
  const std::int64_t at = static_cast<std::int64_t>(n) * 2 * channels;
  const Real* table = args.type_table + static_cast<std::int64_t>(args.type[n]) * channels;
  const Real* grad_x = args.grad_x + n * args.ldx;
  film_half_backward(
      args.film + at, args.scale_norm, args.eps, channels, lane, args.grad_film + at,
      [&](int c) { return grad_x[c] * table[c] * static_cast<Real>(args.scale_strength); });
  film_half_backward(args.film + at + channels, args.shift_norm, args.eps, channels, lane,
                     args.grad_film + at + channels,
                     [&](int c) { return grad_x[c] * static_cast<Real>(args.shift_strength); });
}

template <class Real>
void film_apply_backward(const kernels::FilmApplyBackwardArgs<Real>& args, kernels::Stream stream) {
  for_warps("film_apply_backward", args.n_nodes, stream,
            [=] __device__(int n, int lane) { film_node_backward(args, n, lane); });
}

DPA4_CUDA_INSTANTIATE(film_gram, FilmGramArgs);
DPA4_CUDA_INSTANTIATE(film_gram_backward, FilmGramBackwardArgs);
DPA4_CUDA_INSTANTIATE(film_apply, FilmApplyArgs);
DPA4_CUDA_INSTANTIATE(film_apply_backward, FilmApplyBackwardArgs);

}  // namespace dpa4::cuda
