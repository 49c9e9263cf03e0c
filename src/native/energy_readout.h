// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <vector>

#include "src/model/evaluator.h"
#include "src/native/grid_net.h"

namespace dpa4::native {

/// From the features of the last block to the energy of each atom: read-out layers and fitting net,
/// and back in the same call. Source: spec part 1, section 1.2, part 2, sections 8.4 and 8.5.
template <class Real>
class EnergyReadout {
 public:
  EnergyReadout(const EngineContext<Real>& context, WeightStore<Real>& store,
                const model::ModelConfig& config);

  /// Makes the parts that depend on the run's conditions. Throws InputError for missing parameters.
  void set_conditions(WeightStore<Real>& store, const model::Conditions& conditions);

  /// Energy of each type without the network's part [eV].
  const std::vector<double>& type_energy() const { return shift_; }
  /// Replaces it for the evaluations that follow.
  void set_type_energy(WeightStore<Real>& store, const std::vector<double>& energy);

  int n_aparam() const { return n_aparam_; }
  /// Normalised atomic parameters of `n` atoms as Real.
  std::vector<Real> normalized_aparam(const double* aparam, int n) const;

  std::int64_t size(int count) const;

  /// Energies of the nodes of a range (energy is added to) and grad = dE/dx, rows of ld_grad, of
  /// which the D C of the read-out's degree are written and the others left alone.
  void evaluate(int count, const int* type, const Real* x, std::int64_t ldx, const Real* aparam,
                double* energy, Real* grad, std::int64_t ld_grad, Arena<Real> arena) const;

 private:
  struct GluLayer {
    Linear<Real> linear;
    const Real* bias = nullptr;
    int width = 0;
  };
  /// A read-out layer on scalars: linear, glu, linear.
  struct ScalarLayer {
    Linear<Real> first, second;
    bool plain = false;
  };
  struct Buffers {
    Buffers(Arena<Real>& arena, const EnergyReadout& readout, int count);

    std::vector<Real*> state;  // (count, row) of each read-out layer's input, and the descriptor
    std::vector<typename GridNet<Real>::Buffers> grids;
    std::vector<Real*> scalar_linear, scalar_active;
    std::vector<Real*> fit_linear, fit_active;
    Real* grad_head = nullptr;
    std::vector<Real*> grad_fit;
    Real* grad_state = nullptr;
  };

  void glu(int rows, int width, bool plain, const Real* x, const Real* bias, Real* y) const;
  void glu_backward(int rows, int width, bool plain, const Real* x, const Real* bias,
                    const Real* grad_y, Real* grad_x) const;
  void read_out(int count, const Real* x, std::int64_t ldx, const Buffers& b) const;
  void read_out_backward(int count, Real* grad, std::int64_t ld_grad, const Buffers& b) const;

  const EngineContext<Real>& context_;
  int channels_ = 0;
  int rows_ = 1;  // of the features the read-out sees
  std::vector<GridNet<Real>> grids_;
  bool scalar_result_ = false;  // the last grid net makes row 0 only
  std::vector<ScalarLayer> scalar_layers_;
  std::vector<GluLayer> fit_;
  Linear<Real> aparam_;           // (n_aparam, first width)
  const Real* output_ = nullptr;  // (last width)
  const double* type_scale_ = nullptr;
  const double* type_shift_ = nullptr;  // the one in use
  int last_width_ = 0;

  // What the first layer's bias is made of.
  int n_aparam_ = 0;
  std::vector<double> bias_, aparam_avg_, aparam_inv_std_;
  std::vector<double> fparam_avg_, fparam_inv_std_, default_fparam_, case_embd_;
  HostMatrix fparam_rows_, case_rows_;
  std::vector<double> shift_;
};

}  // namespace dpa4::native
