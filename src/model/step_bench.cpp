// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/model/step_bench.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <random>

#include "src/base/error.h"
#include "src/graph/periodic.h"

namespace dpa4::model {

namespace {

/// Cubic cells of 8 atoms.
struct Diamond {
  std::vector<double> x;
  graph::Cell cell;

  Diamond(int n_atoms, double lattice) {
    constexpr double kShift = 0.05;
    constexpr double kBasis[8][3] = {{0, 0, 0},       {0, .5, .5},     {.5, 0, .5},
                                     {.5, .5, 0},     {.25, .25, .25}, {.25, .75, .75},
                                     {.75, .25, .75}, {.75, .75, .25}};
    const int cells = std::max(1, static_cast<int>(std::lround(std::cbrt(n_atoms / 8.0))));
    std::mt19937 random(1);
    std::normal_distribution<double> shift(0, kShift);
    for (int i = 0; i < cells * cells * cells; ++i) {
      const int at[3] = {i / cells / cells, i / cells % cells, i % cells};
      for (const auto& site : kBasis) {
        for (int a = 0; a < 3; ++a) x.push_back((at[a] + site[a]) * lattice + shift(random));
      }
    }
    const double side = cells * lattice;
    cell = graph::Cell::periodic_3d({{{side, 0, 0}, {0, side, 0}, {0, 0, side}}});
  }
  int n_atoms() const { return static_cast<int>(x.size() / 3); }
};

/// DeePMD-kit 3.2.0, compiled, its fastest level, on one H200, float32: ms a step and GB.
struct Known {
  const char* model;
  int n_atoms;
  double milliseconds;
  double gigabytes;  // 0: not measured
};
constexpr Known kDeepmd[] = {{"nano", 8000, 44.2, 8.27},  {"mini", 8000, 92.6, 16.4},
                             {"neo", 4096, 126.7, 27.0},  {"air", 4096, 302.7, 34.6},
                             {"plus", 1728, 280.0, 29.2}, {"pro", 1000, 641.0, 44.9},
                             {"nano", 64, 17.2, 0},       {"mini", 64, 11.0, 0},
                             {"neo", 64, 13.2, 0},        {"air", 64, 18.1, 0}};

const Known* find_known(const StepBench& row) {
  const auto* found = std::find_if(std::begin(kDeepmd), std::end(kDeepmd), [&](const Known& known) {
    return row.model == known.model && row.n_atoms == known.n_atoms;
  });
  return found == std::end(kDeepmd) ? nullptr : found;
}

std::string text(const char* pattern, ...) __attribute__((format(printf, 1, 2)));
std::string text(const char* pattern, ...) {
  char line[256];
  std::va_list arguments;
  va_start(arguments, pattern);
  std::vsnprintf(line, sizeof line, pattern, arguments);
  va_end(arguments);
  return line;
}

/// The time at the machine's peak over the time it took.
double part_of_peak(const OperationTime& time, const MachinePeak& peak) {
  if (peak.flops <= 0 || time.seconds <= 0) return 0;
  return std::max(time.flops / peak.flops, time.bytes / peak.bytes) / time.seconds;
}

}  // namespace

std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

StepBench bench_step(const std::string& name, const ModelConfig& config, int n_atoms,
                     const std::function<std::unique_ptr<Evaluator>(bool profile)>& make,
                     const StepBenchOptions& options) {
  const Diamond diamond(n_atoms, options.lattice);
  const std::vector<int> type(static_cast<std::size_t>(diamond.n_atoms()), 0);
  graph::PeriodicGraph graph(config.rcut, config.n_types());
  Structure structure;
  structure.type = {type.data(), diamond.n_atoms()};
  structure.edges =
      graph.build({diamond.x.data(), diamond.n_atoms(), 3}, structure.type, diamond.cell);
  StepBench bench;
  bench.model = name;
  bench.n_atoms = diamond.n_atoms();
  bench.n_edges = structure.edges.n_edges();
  NoHalo halo;
  Evaluation result;
  const Structure placed = options.place ? options.place(structure) : structure;
  const auto step = [&](Evaluator& evaluator) {
    Evaluation at_its_place;
    evaluator.evaluate(placed, {}, halo, {}, at_its_place);
  };
  const auto used = [&] { return options.used_bytes ? options.used_bytes() : std::int64_t{0}; };
  {
    const std::int64_t before = used();
    const auto evaluator = make(/*profile=*/false);
    bench.planned_bytes = evaluator->memory_plan().peak(bench.n_atoms, bench.n_edges);
    const auto cold_start = std::chrono::steady_clock::now();
    evaluator->evaluate(structure, {}, halo, {}, result);
    std::vector<double> times;
    if (options.repeats == 0) {
      times.push_back(
          std::chrono::duration<double>(std::chrono::steady_clock::now() - cold_start).count());
    }
    bench.cold_bytes = used() - before;
    for (int i = 1; i < options.warm_up; ++i) step(*evaluator);
    for (int i = 0; i < options.repeats; ++i) {
      const auto start = std::chrono::steady_clock::now();
      step(*evaluator);
      times.push_back(
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    std::sort(times.begin(), times.end());
    bench.median_seconds = times[times.size() / 2];
    bench.best_seconds = times.front();
    bench.steady_bytes = used() - before;
    bench.energy = result.energy;
  }
  if (options.operations) {
    const auto evaluator = make(/*profile=*/true);
    for (int i = 0; i < 2; ++i) step(*evaluator);
    evaluator->take_profile();
    step(*evaluator);
    bench.operations = evaluator->take_profile();
  }
  return bench;
}

MachinePeak machine_peak(const std::string& name, bool float64, bool split) {
  struct Device {
    const char* name;
    double float32, float64, half, bytes;  // float64 and half: on tensor cores, dense
  };
  // Data sheets.
  constexpr Device kDevices[] = {{"H200", 67e12, 67e12, 989e12, 4.8e12},
                                 {"H100", 67e12, 67e12, 989e12, 3.35e12},
                                 {"A100", 19.5e12, 19.5e12, 312e12, 1.94e12}};
  for (const Device& device : kDevices) {
    if (name.find(device.name) == std::string::npos) continue;
    return {float64 ? device.float64
            : split ? device.half / 3
                    : device.float32,
            device.bytes, name.find("H200") != std::string::npos};
  }
  return {};
}

void print_table(std::ostream& out, const std::vector<StepBench>& rows, const MachinePeak& peak) {
  out << "model     atoms      edges  median ms    best ms  plan GB  cold GB steady GB  B/atom |"
      << (peak.compared ? " DeePMD ms     GB  times faster\n" : "\n");
  for (const StepBench& row : rows) {
    out << text("%-8s %6d %10d %10.2f %10.2f %8.3f %8.3f %9.3f %7.0f |", row.model.c_str(),
                row.n_atoms, row.n_edges, 1e3 * row.median_seconds, 1e3 * row.best_seconds,
                1e-9 * static_cast<double>(row.planned_bytes),
                1e-9 * static_cast<double>(row.cold_bytes),
                1e-9 * static_cast<double>(row.steady_bytes),
                static_cast<double>(row.steady_bytes) / row.n_atoms);
    if (const Known* known = peak.compared ? find_known(row) : nullptr) {
      out << text(" %9.1f %6.2f %9.2f", known->milliseconds, known->gigabytes,
                  1e-3 * known->milliseconds / row.median_seconds);
    }
    out << "\n";
    double sum = 0;
    for (const OperationTime& time : row.operations) sum += time.seconds;
    for (const OperationTime& time : row.operations) {
      out << text("    %-28s %9.3f ms %5.1f %% %6lld calls", time.name.c_str(), 1e3 * time.seconds,
                  100 * time.seconds / sum, static_cast<long long>(time.calls));
      if (time.bytes > 0) {
        out << text(" %7.2f TFLOP/s %6.2f TB/s", 1e-12 * time.flops / time.seconds,
                    1e-12 * time.bytes / time.seconds);
        if (peak.flops > 0) out << text("  %3.0f %% of peak", 100 * part_of_peak(time, peak));
      }
      out << "\n";
    }
    if (!row.operations.empty()) out << text("    %-28s %9.3f ms\n", "all", 1e3 * sum);
  }
}

void print_json(std::ostream& out, const std::string& machine, const std::string& arithmetic,
                const std::string& memory, const std::vector<StepBench>& rows,
                const MachinePeak& peak) {
  out << "{\n  \"machine\": \"" << machine << "\",\n  \"arithmetic\": \"" << arithmetic
      << "\",\n  \"memory\": \"" << memory << "\",\n"
      << text("  \"peak_flops\": %.4g,\n  \"peak_bytes\": %.4g,\n", peak.flops, peak.bytes)
      << "  \"rows\": [";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const StepBench& row = rows[i];
    out << (i > 0 ? "," : "") << "\n    {\"model\": \"" << row.model << "\", "
        << text("\"atoms\": %d, \"edges\": %d, \"median_s\": %.6g, \"best_s\": %.6g, ", row.n_atoms,
                row.n_edges, row.median_seconds, row.best_seconds)
        << text("\"planned_bytes\": %lld, \"cold_bytes\": %lld, \"steady_bytes\": %lld, ",
                static_cast<long long>(row.planned_bytes), static_cast<long long>(row.cold_bytes),
                static_cast<long long>(row.steady_bytes))
        << text("\"energy\": %.12g, ", row.energy);
    if (const Known* known = peak.compared ? find_known(row) : nullptr) {
      out << text("\"deepmd_s\": %.6g, \"deepmd_bytes\": %.6g, ", 1e-3 * known->milliseconds,
                  1e9 * known->gigabytes);
    }
    out << "\"operations\": [";
    for (std::size_t k = 0; k < row.operations.size(); ++k) {
      const OperationTime& time = row.operations[k];
      out << (k > 0 ? ", " : "") << "{\"name\": \"" << time.name << "\", "
          << text("\"s\": %.6g, \"calls\": %lld, \"flops\": %.6g, \"bytes\": %.6g}", time.seconds,
                  static_cast<long long>(time.calls), time.flops, time.bytes);
    }
    out << "]}";
  }
  out << "\n  ]\n}\n";
}

}  // namespace dpa4::model
