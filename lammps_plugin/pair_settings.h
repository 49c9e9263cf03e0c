// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/engine/engine.h"
#include "src/model/model_config.h"

namespace dpa4::lammps {

/// A wrong argument of a LAMMPS command: the sentence, and which argument to underline.
class ArgumentError : public InputError {
 public:
  ArgumentError(int argument, const std::string& sentence)
      : InputError(sentence), argument_(argument) {}
  int argument() const { return argument_; }

 private:
  int argument_;  // position in the list that was parsed
};

/// What the keywords of `pair_style dpa4` set.
struct PairSettings {
  engine::EngineOptions engine;
  std::vector<double> fparam;    // one set for the whole system
  std::vector<double> aparam;    // one set, the same for every atom
  std::string fparam_compute;    // ID of a LAMMPS compute that gives fparam anew every step
  std::string aparam_compute;    // ID of a LAMMPS compute that gives every atom its aparam
  std::optional<double> charge;  // total charge [e]
  std::optional<double> spin;    // spin multiplicity
};

/// Reads the arguments after `pair_style dpa4`:
///
///   engine auto|eager|native    precision float32|float64    device auto|cpu|cuda
///   cohort N    memory auto|min|BYTES (suffix K, M, G or T: powers of 1024)
///   arithmetic auto|NAME (split or fp32 on a CUDA device, an instruction set on a processor)
///   head NAME   ema yes|no
///   charge Q    spin S    charge_spin Q S
///   fparam V1 V2 ...    aparam V1 V2 ...    fparam_from_compute ID    aparam_from_compute ID
///
/// A keyword given twice counts as given last, as do values and a compute for the same parameters.
/// Throws ArgumentError.
PairSettings parse_pair_settings(const std::vector<std::string>& arguments);

/// What the settings mean to a model: defaults filled in, numbers of values checked. Throws
/// InputError.
model::Conditions resolve_conditions(const PairSettings& settings,
                                     const model::ModelConfig& config);

/// The per-atom parameters of every atom, of which a model may want none; zeros where a compute
/// will give them. Throws InputError.
std::vector<double> resolve_aparam(const PairSettings& settings, const model::ModelConfig& config);

/// For each LAMMPS atom type the index of its element in the model's type_map, or -1 for NULL.
/// `elements` are the arguments of pair_coeff after the file name. Throws ArgumentError.
std::vector<int> map_elements(const std::vector<std::string>& elements, int n_lammps_types,
                              const std::vector<std::string>& type_map);

}  // namespace dpa4::lammps
