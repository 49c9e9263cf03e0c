// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/engine/bench_cases.h"

#include <algorithm>
#include <utility>

#include "src/model/presets.h"
#include "src/model/weight_schema.h"

namespace dpa4::engine {

std::optional<BenchCase> parse_bench_case(const std::string& word) {
  constexpr std::size_t kMostDigits = 8;
  const std::size_t colon = word.rfind(':');
  if (colon == std::string::npos || colon == 0) return std::nullopt;
  const std::string digits = word.substr(colon + 1);
  if (digits.empty() || digits.size() > kMostDigits ||
      digits.find_first_not_of("0123456789") != std::string::npos) {
    return std::nullopt;
  }
  return BenchCase{word.substr(0, colon), std::max(1, std::stoi(digits))};
}

std::vector<BenchCase> usual_bench_cases(model::Device device) {
  if (device == model::Device::kCpu) return {{"nano", 216}, {"mini", 216}, {"neo", 216}};
  return {{"nano", 8000}, {"mini", 8000}, {"neo", 4096}, {"air", 4096},
          {"plus", 1728}, {"pro", 1000},  {"neo", 1000}, {"nano", 64},
          {"mini", 64},   {"neo", 64},    {"air", 64}};
}

BenchModel open_bench_model(const std::string& model, const io::CheckpointOptions& options,
                            Logger& log) {
  const auto& presets = model::preset_names();
  if (std::find(presets.begin(), presets.end(), model) == presets.end()) {
    io::Checkpoint checkpoint = io::read_checkpoint(model, options, log);
    return {std::move(checkpoint.config), std::move(checkpoint.weights)};
  }
  BenchModel made{model::preset(model, {"C"}), {}};
  made.weights = model::random_weights(made.config, 1);
  return made;
}

}  // namespace dpa4::engine
