// SPDX-License-Identifier: GPL-2.0-or-later
#include <utility>

#include "kernels/cuda/so2_stack.cuh"
#include "kernels/cuda/so2_stack.h"

namespace dpa4::cuda {

template <class Real>
void copy_rows(const EdgeRows<const Real>& from, const EdgeRows<Real>& to, int n_focus, int count,
               int width, kernels::Stream stream) {
  for_rows("so2_stack_copy", count * n_focus, width / 4, stream, [=] __device__(int row, int k) {
    Real values[4];
    load_numbers<4>(from.at(row / count, row % count, 4 * k), values);
    store_numbers<4>(to.at(row / count, row % count, 4 * k), values);
  });
}

template <Arithmetic kArithmetic, class Real>
class So2Stack {
 public:
  So2Stack(const kernels::MessageShape& shape, int count, Real* u, Real* work,
           kernels::Stream stream)
      : size_(shape, count), stream_(stream), u_{u, size_.row, size_.total(size_.row) / focus()} {
    DPA4_EXPECTS(size_.width % 4 == 0);
    const auto rows = [&](int width) {
      const EdgeRows<Real> part{work, width, static_cast<std::int64_t>(count) * width};
      work += size_.total(width);
      return part;
    };
    spare_ = rows(size_.row);
    open_ = rows(size_.gates);
    grad_logit_ = rows(size_.gates);
    grad_scalar_ = rows(size_.width);
  }

  void forward(const kernels::So2StackArgs<Real>& args) {
    for (int j = 0; j < args.n_layers; ++j) {
      const kernels::So2Layer<Real>& layer = args.layers[j];
      KeptRows<Real> kept;
      if (args.kept != nullptr && (args.keep_result || j + 1 < args.n_layers)) {
        const std::int64_t stride = args.kept_rows * size_.row;
        kept = {args.kept + j * size_.n_focus * stride, args.kept_row, size_.row, stride};
      }
      if (j + 1 < args.n_layers) {
        gated_layer(layer, kept);
      } else {
        last_layer(layer, kept);
      }
    }
  }

  void backward(const kernels::So2StackBackwardArgs<Real>& args) {
    EdgeRows<Real> grad = u_, other = spare_;
    for (int j = args.n_layers - 1; j >= 0; --j) {
      const kernels::So2Layer<Real>& layer = args.layers[j];
      if (j + 1 == args.n_layers) {
        const EdgeRows<const Real> from = read(grad);
        product("so2_stack_backward_m0", size_.m0, size_.m0, layer.m0_transposed,
                LoadRows<Real>{from}, StoreSum<Real>{from, other, {}});
        const EdgeRows<const Real> from1 = from.columns(size_.m0);
        product("so2_stack_backward_m1", size_.m1, size_.m1, layer.m1_transposed,
                LoadRows<Real>{from1}, StoreSum<Real>{from1, other.columns(size_.m0), {}});
      } else {
        const std::int64_t stride = args.kept_rows * size_.row;
        gated_layer_backward(layer, {args.kept + j * size_.n_focus * stride, size_.row, stride},
                             read(grad), other);
      }
      std::swap(grad, other);
    }
    if (grad.data != u_.data) copy(read(grad), u_, size_.row);
  }

 private:
  int focus() const { return size_.n_focus; }

  template <class Load, class Store>
  void product(const char* name, int k, int n, const Real* weights, const Load& load,
               const Store& store) {
    const GemmShape shape{size_.count, n, k, size_.n_focus};
    const WeightMatrix<Real> matrix{weights, n, static_cast<std::int64_t>(k) * n};
    stack_product<kArithmetic>(name, shape, matrix, load, store, stream_);
  }

  void copy(const EdgeRows<const Real>& from, const EdgeRows<Real>& to, int width) {
    copy_rows(from, to, size_.n_focus, size_.count, width, stream_);
  }

  void gated_layer(const kernels::So2Layer<Real>& layer, const KeptRows<Real>& kept) {
    // z0 goes to its kept place at once where every row has one.
    const bool in_place = kept.data != nullptr && kept.row == nullptr;
    const EdgeRows<Real> z = in_place ? EdgeRows<Real>{kept.data, kept.ld, kept.stride} : spare_;
    product("so2_stack_m0", size_.m0, size_.m0, layer.m0, LoadRows<Real>{read(u_)},
            StoreScalars<Real>{z, in_place ? KeptRows<Real>{} : kept});
    product("so2_stack_gate", size_.width, size_.gates, layer.gate, LoadRows<Real>{read(z)},
            StoreGates<Real>{open_, read(z), u_, size_.width});
    const EdgeRows<Real> from = odd_ ? spare_.columns(size_.m0) : u_.columns(size_.m0);
    const EdgeRows<Real> to = odd_ ? u_.columns(size_.m0) : spare_.columns(size_.m0);
    product("so2_stack_m1", size_.m1, size_.m1, layer.m1, LoadRows<Real>{read(from)},
            StoreGated<Real>{read(from), to, read(open_), kept.columns(size_.m0), size_.gates});
    odd_ = !odd_;
  }

  void last_layer(const kernels::So2Layer<Real>& layer, const KeptRows<Real>& kept) {
    product("so2_stack_m0", size_.m0, size_.m0, layer.m0, LoadRows<Real>{read(u_)},
            StoreSum<Real>{read(u_), spare_, kept});
    copy(read(spare_), u_, size_.m0);
    const EdgeRows<Real> u1 = u_.columns(size_.m0), spare1 = spare_.columns(size_.m0);
    const EdgeRows<Real> from = odd_ ? spare1 : u1, to = odd_ ? u1 : spare1;
    product("so2_stack_m1", size_.m1, size_.m1, layer.m1, LoadRows<Real>{read(from)},
            StoreSum<Real>{read(from), to, kept.columns(size_.m0)});
    if (!odd_) copy(read(spare1), u1, size_.m1);
    odd_ = false;
  }

  void gated_layer_backward(const kernels::So2Layer<Real>& layer, const EdgeRows<const Real>& z,
                            const EdgeRows<const Real>& grad, const EdgeRows<Real>& to) {
    product("so2_stack_backward_gate", size_.width, size_.gates, layer.gate, LoadRows<Real>{z},
            StoreGateGradients<Real>{open_, grad_logit_, z, grad, size_.width, size_.gates});
    product("so2_stack_backward_scalar", size_.gates, size_.width, layer.gate_transposed,
            LoadRows<Real>{read(grad_logit_)}, StoreScalarGradient<Real>{grad_scalar_, z, grad});
    product("so2_stack_backward_m0", size_.m0, size_.m0, layer.m0_transposed,
            LoadScalarGradients<Real>{read(grad_scalar_), grad, read(open_), size_.width},
            StoreSum<Real>{grad, to, {}});
    const EdgeRows<const Real> grad1 = grad.columns(size_.m0);
    product("so2_stack_backward_m1", size_.m1, size_.m1, layer.m1_transposed,
            LoadGated<Real>{grad1, read(open_), size_.gates},
            StoreSum<Real>{grad1, to.columns(size_.m0), {}});
  }

  StackSizes size_;
  kernels::Stream stream_;
  EdgeRows<Real> u_;
  EdgeRows<Real> spare_;  // rows of the other buffer
  EdgeRows<Real> open_, grad_logit_, grad_scalar_;
  bool odd_ = false;  // u1 is in the spare buffer
};

template <Arithmetic kArithmetic, class Real>
void stepwise_so2_stack(const kernels::So2StackArgs<Real>& args, kernels::Stream stream) {
  So2Stack<kArithmetic, Real>(args.shape, args.count, args.u, args.work, stream).forward(args);
}

template <Arithmetic kArithmetic, class Real>
void stepwise_so2_stack_backward(const kernels::So2StackBackwardArgs<Real>& args,
                                 kernels::Stream stream) {
  So2Stack<kArithmetic, Real>(args.shape, args.count, args.grad_u, args.work, stream)
      .backward(args);
}

#define DPA4_INSTANTIATE(arithmetic, Real)                                         \
  template void stepwise_so2_stack<arithmetic>(const kernels::So2StackArgs<Real>&, \
                                               kernels::Stream);                   \
  template void stepwise_so2_stack_backward<arithmetic>(                           \
      const kernels::So2StackBackwardArgs<Real>&, kernels::Stream)
DPA4_INSTANTIATE(Arithmetic::kPlain, float);
DPA4_INSTANTIATE(Arithmetic::kPlain, double);
DPA4_INSTANTIATE(Arithmetic::kSplit, float);
#undef DPA4_INSTANTIATE

}  // namespace dpa4::cuda
