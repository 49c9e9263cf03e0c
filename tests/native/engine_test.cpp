// SPDX-License-Identifier: GPL-2.0-or-later
// What must not change the result of the native engine: how edges are cut into cohorts, how much is
// kept, how many threads and ranks there are, what was evaluated before.
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <random>

#include "kernels/api/operation_list.h"
#include "kernels/cpu/cpu_backend.h"
#include "src/model/presets.h"
#include "src/model/weight_schema.h"
#include "src/native/step_engine.h"
#include "tests/native/model_case.h"
#include "tests/native/two_ranks.h"

namespace dpa4::native::testing {
namespace {

using model::Precision;

/// The processor with cohorts as large as asked for, whatever its caches would like; it can pretend
/// to have memory that the host cannot read.
class LiteralMachine : public kernels::Machine {
 public:
  explicit LiteralMachine(bool host_memory = true, int nodes = 24)
      : inner_(cpu::make_machine()), host_memory_(host_memory), nodes_(nodes) {}

  std::string name() const override { return inner_->name(); }
  bool host_memory() const override { return host_memory_; }
  std::int64_t free_bytes() const override { return free ? *free - held : inner_->free_bytes(); }
  void* allocate(std::size_t bytes) override {
    if (allocations == 0) throw InputError("out of memory");
    if (allocations > 0) --allocations;
    void* memory = inner_->allocate(bytes);
    held_[memory] = static_cast<std::int64_t>(bytes);
    held += static_cast<std::int64_t>(bytes);
    most_held = std::max(most_held, held);
    return memory;
  }
  void release(void* memory) override {
    held -= held_.at(memory);
    held_.erase(memory);
    inner_->release(memory);
  }
  kernels::Stream stream() override { return nullptr; }
  void upload(void* to, const void* from, std::size_t bytes) override {
    inner_->upload(to, from, bytes);
  }
  void download(void* to, const void* from, std::size_t bytes) override {
    largest_download = std::max(largest_download, bytes);
    inner_->download(to, from, bytes);
  }
  void zero(void* memory, std::size_t bytes) override { inner_->zero(memory, bytes); }
  void synchronize() override {}
  int lanes() const override { return inner_->lanes(); }
  /// Nodes come without a limit of the user's.
  int preferred_count(std::int64_t, int limit) const override {
    constexpr int kNoLimit = 65536;
    return limit == kNoLimit ? nodes_ : limit;
  }
  void for_each(int n, Task task, void* context) override { inner_->for_each(n, task, context); }

  std::int64_t held = 0;  // bytes allocated and not released
  std::int64_t most_held = 0;
  std::size_t largest_download = 0;  // bytes
  std::optional<std::int64_t> free;  // bytes of a machine with so much memory
  int allocations = -1;              // that still succeed; negative: any number

 private:
  std::unique_ptr<kernels::Machine> inner_;
  bool host_memory_;
  int nodes_;
  std::map<void*, std::int64_t> held_;
};

template <class Real>
std::unique_ptr<model::Evaluator> literal_engine(const model::ModelConfig& config,
                                                 const model::Weights& weights,
                                                 const model::EvaluatorOptions& options) {
  return std::make_unique<StepEngine<Real>>(
      config, weights, options,
      Backend<Real>{std::make_unique<LiteralMachine>(), &cpu::table<Real>()});
}

std::unique_ptr<model::Evaluator> literal_engine(const ModelCase& model,
                                                 const model::EvaluatorOptions& options) {
  return options.precision == Precision::kFloat32
             ? literal_engine<float>(model.config(), model.weights(), options)
             : literal_engine<double>(model.config(), model.weights(), options);
}

/// Largest difference of forces, relative to the largest force.
double force_difference(const model::Evaluation& a, const model::Evaluation& b) {
  double difference = 0, scale = 0;
  for (std::size_t i = 0; i < a.force.size(); ++i) {
    difference = std::max(difference, std::abs(a.force[i] - b.force[i]));
    scale = std::max(scale, std::abs(a.force[i]));
  }
  return difference / scale;
}

class Threads {
 public:
  explicit Threads(int n) : before_(omp_get_max_threads()) { omp_set_num_threads(n); }
  ~Threads() { omp_set_num_threads(before_); }

 private:
  int before_;
};

class Cohorts : public ::testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(Cohorts, DoNotChangeTheResult) {
  const auto [name, cohort] = GetParam();
  ModelCase model(std::string("golden/") + name + ".json");
  for (const Precision precision : {Precision::kFloat64, Precision::kFloat32}) {
    model::EvaluatorOptions options;
    options.precision = precision;
    options.cohort = cohort;
    const auto evaluator = literal_engine(model, options);
    EXPECT_EQ(evaluator->memory_plan().cohort, cohort);
    for (const tools::ReferenceFrame& frame : model.frames()) {
      expect_accepted(model.evaluate(*evaluator, frame), frame.float64, precision,
                      frame.structure.name);
    }
  }
}

// 1 and 37: every atom has more edges than a cohort (up to 100 neighbors). 8192, 30000: all at
// once.
INSTANTIATE_TEST_SUITE_P(All, Cohorts,
                         ::testing::Combine(::testing::Values("neo", "mini_prenorm", "noatten",
                                                              "zbl", "nano"),
                                            ::testing::Values(1, 37, 8192, 30000)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) + "_" +
                                  std::to_string(std::get<1>(info.param));
                         });

class Budget : public ::testing::TestWithParam<std::tuple<const char*, Precision>> {};

TEST_P(Budget, KeptAndRecomputedStacksHaveTheSameBits) {
  const auto [name, precision] = GetParam();
  ModelCase model(name);
  const tools::ReferenceFrame& frame = model.frames().front();
  model::EvaluatorOptions options;
  options.precision = precision;
  options.memory = 0;
  const model::Evaluation none = model.evaluate(*model.make(options), frame);
  options.memory = std::numeric_limits<std::int64_t>::max() / 2;
  const model::Evaluation all = model.evaluate(*model.make(options), frame);
  expect_same_bits(none, all);
  // A part of the edges: the plan of the engine plus a megabyte.
  const auto evaluator = model.make(options);
  options.memory =
      evaluator->memory_plan().total(frame.structure.n_atoms(), model.last_edges()) + (1 << 20);
  expect_same_bits(none, model.evaluate(*model.make(options), frame));
}

INSTANTIATE_TEST_SUITE_P(All, Budget,
                         ::testing::Combine(::testing::Values("golden/neo.json", "golden/plus.json",
                                                              "reference/water_mini.json"),
                                            ::testing::Values(Precision::kFloat64,
                                                              Precision::kFloat32)));

TEST(Engine, ThreadsDoNotChangeABit) {
  ModelCase model("reference/sic_mini.json");
  const auto evaluator = model.make({});
  model::Evaluation one, two;
  {
    const Threads threads(1);
    one = model.evaluate(*evaluator, model.frames().front());
  }
  {
    const Threads threads(2);
    two = model.evaluate(*evaluator, model.frames().front());
  }
  expect_same_bits(one, two);
}

TEST(Engine, RepeatsItselfBitForBit) {
  ModelCase model("reference/cu_nano.json");
  const Threads threads(2);
  const auto evaluator = model.make({});
  const model::Evaluation first = model.evaluate(*evaluator, model.frames().front());
  expect_same_bits(first, model.evaluate(*evaluator, model.frames().front()));
  expect_same_bits(first, model.evaluate(*model.make({}), model.frames().front()));
}

/// Atoms at random and the first edges of their list.
class RandomStructure {
 public:
  RandomStructure(int n, double box, int n_types, double rcut, unsigned seed)
      : graph_(rcut, n_types) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> place(0, box);
    for (int i = 0; i < n; ++i) {
      type_.push_back(static_cast<int>(random() % static_cast<unsigned>(n_types)));
      for (int a = 0; a < 3; ++a) x_.push_back(place(random));
    }
    const graph::Cell cell = graph::Cell::periodic_3d({{{box, 0, 0}, {0, box, 0}, {0, 0, box}}});
    structure_.type = {type_.data(), n};
    structure_.edges = graph_.build({x_.data(), n, 3}, structure_.type, cell);
  }

  const model::Structure& structure() const { return structure_; }

  /// The same atoms with only the first `count` edges.
  model::Structure with_edges(int count) {
    const graph::EdgeList& all = structure_.edges;
    EXPECT_LE(count, all.n_edges());
    const int n = all.n_nodes;
    dst_begin_.assign(1, 0);
    for (int i = 0; i < n; ++i) dst_begin_.push_back(std::min(all.dst_begin(i + 1), count));
    by_src_.clear();
    src_begin_.assign(1, 0);
    for (int i = 0; i < n; ++i) {
      for (int p = all.src_begin(i); p < all.src_begin(i + 1); ++p) {
        if (all.by_src(p) < count) by_src_.push_back(all.by_src(p));
      }
      src_begin_.push_back(static_cast<int>(by_src_.size()));
    }
    model::Structure part = structure_;
    part.edges.src = {all.src.data(), count};
    part.edges.dst = {all.dst.data(), count};
    part.edges.vec = {all.vec.data(), count, 3};
    part.edges.dst_begin = {dst_begin_.data(), n + 1};
    part.edges.by_src = {by_src_.data(), count};
    part.edges.src_begin = {src_begin_.data(), n + 1};
    return part;
  }

 private:
  graph::PeriodicGraph graph_;
  std::vector<double> x_;
  std::vector<int> type_, dst_begin_, by_src_, src_begin_;
  model::Structure structure_;
};

model::Evaluation evaluate(model::Evaluator& evaluator, const model::Structure& structure) {
  model::NoHalo halo;
  model::Evaluation result;
  evaluator.evaluate(structure, {}, halo, {true}, result);
  return result;
}

TEST(Engine, AnySequenceOfSizesGivesTheResultsOfAFreshEngine) {
  const ModelCase model("golden/mini.json");
  RandomStructure atoms(400, 13.5, 3, model.config().rcut, 5);
  ASSERT_GE(atoms.structure().edges.n_edges(), 16385);
  model::EvaluatorOptions options;
  options.cohort = 8192;
  const auto used = literal_engine(model, options);
  for (int edges : {37, 8193, 16385, 0, 8193}) {
    const model::Structure structure = atoms.with_edges(edges);
    const model::Evaluation result = evaluate(*used, structure);
    expect_same_bits(result, evaluate(*literal_engine(model, options), structure));
    for (double force : result.force) ASSERT_TRUE(std::isfinite(force));
  }
}

/// The plan made before the first step against what is held after it: small and large systems, with
/// and without kept pre-activations, on the processor and on a machine with memory of its own.
TEST(Engine, PlanTellsTheMemoryThatIsUsed) {
  for (const char* name : {"neo", "zbl"}) {
    const ModelCase model(std::string("golden/") + name + ".json");
    for (const bool host_memory : {true, false}) {
      for (const std::optional<std::int64_t> memory :
           {std::optional<std::int64_t>(0), std::optional<std::int64_t>()}) {
        auto machine = std::make_unique<LiteralMachine>(host_memory);
        LiteralMachine& counter = *machine;
        counter.free = std::int64_t{16} << 30;  // whatever other programs do
        model::EvaluatorOptions options;
        options.memory = memory;
        options.cohort = 256;
        StepEngine<float> engine(model.config(), model.weights(), options,
                                 {std::move(machine), &cpu::table<float>()});
        const model::MemoryPlan plan = engine.memory_plan();
        EXPECT_LE(plan.bytes_per_edge, 64);
        for (const int n : {4, 150}) {
          RandomStructure atoms(n, 2.3 * std::cbrt(n), 3, model.config().rcut, 8);
          counter.most_held = counter.held;
          evaluate(engine, atoms.structure());
          const graph::EdgeList& edges = atoms.structure().edges;
          const double planned = static_cast<double>(plan.peak(edges.n_nodes, edges.n_edges()));
          EXPECT_NEAR(static_cast<double>(counter.most_held) / planned, 1.0, 0.05)
              << name << ", " << n << " atoms, " << edges.n_edges() << " edges, "
              << (host_memory ? "host" : "device") << (memory ? ", min" : ", auto");
        }
      }
    }
  }
}

/// `memory min` takes small buffers where much memory would allow large ones, and a budget in
/// between bounds them too.
TEST(Engine, BudgetBoundsTheBuffers) {
  const model::ModelConfig config = model::preset("neo", {"C"});
  const model::Weights weights = model::random_weights(config, 1);
  const auto plan = [&](std::optional<std::int64_t> memory) {
    model::EvaluatorOptions options;
    options.memory = memory;
    auto machine = std::make_unique<LiteralMachine>(true, 1 << 16);
    machine->free = std::int64_t{100} << 30;
    return StepEngine<float>(config, weights, options, {std::move(machine), &cpu::table<float>()})
        .memory_plan();
  };
  const model::MemoryPlan least = plan(0), some = plan(std::int64_t{16} << 30), most = plan({});
  EXPECT_LT(least.buffer_bytes, std::int64_t{900} << 20);
  EXPECT_GE(least.cohort, 16384);
  EXPECT_GT(some.buffer_bytes, least.buffer_bytes);
  EXPECT_LE(some.buffer_bytes, std::int64_t{2} << 30);
  EXPECT_GT(most.buffer_bytes, some.buffer_bytes);
}

TEST(Engine, BudgetIsKept) {
  const ModelCase model("golden/neo.json");
  RandomStructure atoms(150, 11.2, 3, model.config().rcut, 9);
  const graph::EdgeList& edges = atoms.structure().edges;
  model::EvaluatorOptions options;
  options.cohort = 256;
  const std::int64_t least =
      literal_engine(model, options)->memory_plan().total(edges.n_nodes, edges.n_edges());
  for (std::int64_t extra : {std::int64_t{0}, std::int64_t{5} << 20}) {
    auto machine = std::make_unique<LiteralMachine>();
    LiteralMachine& counter = *machine;
    options.memory = least + extra;
    StepEngine<float> engine(model.config(), model.weights(), options,
                             {std::move(machine), &cpu::table<float>()});
    evaluate(engine, atoms.structure());
    EXPECT_LE(counter.held, static_cast<std::int64_t>(1.02 * static_cast<double>(*options.memory)));
    if (extra > 0) {
      EXPECT_GT(counter.held, least + extra / 2);
    }
  }
}

TEST(Engine, RefusesWhatDoesNotFitAndSaysWhatWould) {
  const ModelCase model("golden/mini.json");
  auto machine = std::make_unique<LiteralMachine>();
  LiteralMachine& counter = *machine;
  model::EvaluatorOptions options;
  options.cohort = 64;
  StepEngine<float> engine(model.config(), model.weights(), options,
                           {std::move(machine), &cpu::table<float>()});
  RandomStructure small(50, 9.0, 3, model.config().rcut, 10);
  RandomStructure large(2000, 29.0, 3, model.config().rcut, 10);
  evaluate(engine, small.structure());
  const std::int64_t before = counter.held;
  counter.free = before + (1 << 20);
  try {
    evaluate(engine, large.structure());
    FAIL() << "was not refused";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("not enough memory for 2000 atoms"),
              std::string::npos);
    EXPECT_NE(std::string(error.what()).find("atoms fit"), std::string::npos);
  }
  EXPECT_LE(counter.held, before);
  // What fitted before still does.
  evaluate(engine, small.structure());
}

/// Whichever allocation of a step fails: there is an error or the right result, and what comes
/// after is as if nothing had been.
TEST(Engine, GoesOnAfterAnAllocationThatFailed) {
  const ModelCase model("golden/mini.json");
  const model::EvaluatorOptions options;
  RandomStructure small(20, 7.0, 3, model.config().rcut, 11);
  RandomStructure large(150, 12.0, 3, model.config().rcut, 12);
  const auto plain = literal_engine<float>(model.config(), model.weights(), options);
  const model::Evaluation small_result = evaluate(*plain, small.structure());
  const model::Evaluation large_result = evaluate(*plain, large.structure());
  const int begin[1] = {0};
  model::Structure nothing;
  nothing.edges.dst_begin = nothing.edges.src_begin = {begin, 1};
  int failures = 0, steps = 0;
  for (bool failed = true; failed && steps < 20; ++steps) {
    auto owned = std::make_unique<LiteralMachine>();
    LiteralMachine& machine = *owned;
    StepEngine<float> engine(model.config(), model.weights(), options,
                             {std::move(owned), &cpu::table<float>()});
    evaluate(engine, small.structure());
    machine.allocations = steps;
    try {
      expect_same_bits(evaluate(engine, large.structure()), large_result);
    } catch (const InputError&) {
      ++failures;
    }
    failed = machine.allocations == 0;
    machine.allocations = -1;
    EXPECT_EQ(evaluate(engine, nothing).energy, 0);
    expect_same_bits(evaluate(engine, small.structure()), small_result);
    expect_same_bits(evaluate(engine, large.structure()), large_result);
  }
  EXPECT_GE(failures, 2);  // arrays and buffers
  // Without memory for either array of kept rows the step is possible; two more have enough.
  EXPECT_EQ(steps, failures + 4);
  EXPECT_LT(steps, 20);
}

/// Kept rows leave some of the free memory to others.
TEST(Engine, KeptRowsDoNotTakeAllMemory) {
  const ModelCase model("golden/mini.json");
  auto owned = std::make_unique<LiteralMachine>(/*host_memory=*/false);
  LiteralMachine& machine = *owned;
  machine.free = std::int64_t{100} << 30;
  model::EvaluatorOptions options;
  options.cohort = 64;
  StepEngine<float> engine(model.config(), model.weights(), options,
                           {std::move(owned), &cpu::table<float>()});
  RandomStructure atoms(150, 12.0, 3, model.config().rcut, 13);
  const graph::EdgeList& edges = atoms.structure().edges;
  const model::MemoryPlan plan = engine.memory_plan();
  const std::int64_t kept = plan.kept_bytes(edges.n_nodes, edges.n_edges());
  ASSERT_EQ(kept, plan.kept_bytes_per_edge * edges.n_edges());
  machine.free = plan.total(edges.n_nodes, edges.n_edges()) + kept / 2;
  expect_same_bits(evaluate(engine, atoms.structure()),
                   evaluate(*literal_engine<float>(model.config(), model.weights(), options),
                            atoms.structure()));
  EXPECT_GE(machine.free_bytes(), kept / 2 / 9);
  EXPECT_LE(machine.free_bytes(), kept / 4);  // most of it is used
}

/// Work that is being noted instead of done.
std::vector<std::function<void()>>* notes = nullptr;

template <auto kMember, class Args>
struct Noted {
  static inline void (*original)(const Args&, kernels::Stream) = nullptr;
  static void call(const Args& args, kernels::Stream stream) {
    if (notes == nullptr) return original(args, stream);
    notes->push_back([args, stream] { original(args, stream); });
  }
};

template <auto kMember, class Args>
void note(void (*&entry)(const Args&, kernels::Stream)) {
  Noted<kMember, Args>::original = entry;
  entry = Noted<kMember, Args>::call;
}

/// The operations of the processor for a RecordingMachine.
const kernels::KernelTable<float>& noted_table() {
  static const kernels::KernelTable<float> table = [] {
    kernels::KernelTable<float> noted = cpu::table<float>();
#define DPA4_NOTE(operation) note<&kernels::KernelTable<float>::operation>(noted.operation);
    DPA4_FOR_EACH_OPERATION(DPA4_NOTE)
#undef DPA4_NOTE
    return noted;
  }();
  return table;
}

/// The processor as a device that can record and replay.
class RecordingMachine final : public LiteralMachine {
 public:
  RecordingMachine() : LiteralMachine(/*host_memory=*/false) {}

  int lanes() const override { return 1; }
  void for_each(int n, Task task, void* context) override {
    for (int i = 0; i < n; ++i) task(context, 0, i);
  }
  void zero(void* memory, std::size_t bytes) override {
    if (notes == nullptr) return LiteralMachine::zero(memory, bytes);
    notes->push_back([=, this] { LiteralMachine::zero(memory, bytes); });
  }
  bool records() const override { return true; }
  void begin_recording() override {
    notes_.clear();
    notes = &notes_;
  }
  bool end_recording() override {
    notes = nullptr;
    ++recordings;
    return recordable;
  }
  void replay() override {
    for (const auto& work : notes_) work();
    ++replays;
  }

  int recordings = 0, replays = 0;
  bool recordable = true;

 private:
  std::vector<std::function<void()>> notes_;
};

/// Steps with changing positions and edges, then other sizes: what is replayed, and that all bits
/// are those of a machine that does not record.
TEST(Engine, ReplayedStepsHaveTheBitsOfIssuedOnes) {
  const ModelCase model("golden/neo.json");
  for (const std::optional<std::int64_t> memory :
       {std::optional<std::int64_t>(), std::optional<std::int64_t>(0)}) {
    model::EvaluatorOptions options;
    options.memory = memory;
    auto owned = std::make_unique<RecordingMachine>();
    RecordingMachine& machine = *owned;
    StepEngine<float> engine(model.config(), model.weights(), options,
                             {std::move(owned), &noted_table()});
    const auto plain = model.make(options);
    const auto check = [&](int n, unsigned seed, int drop) {
      RandomStructure atoms(n, 6.5, 3, model.config().rcut, seed);
      const model::Structure structure = atoms.with_edges(atoms.structure().edges.n_edges() - drop);
      expect_same_bits(evaluate(engine, structure), evaluate(*plain, structure));
    };
    for (const int drop : {0, 1, 2, 3}) check(24, 1, drop);
    EXPECT_EQ(machine.recordings, 1);
    EXPECT_GE(machine.replays, 2);
    const int replays = machine.replays;
    check(24, 2, 0);  // other edges
    check(13, 1, 0);  // other atoms
    EXPECT_LE(machine.replays, replays + 1);
    check(13, 1, 0);
    check(13, 1, 1);
    EXPECT_GE(machine.replays, replays + 1);
    // A machine that fails to record goes on without.
    machine.recordable = false;
    check(24, 1, 0);
    check(24, 1, 0);
    const int failed = machine.recordings;
    check(24, 1, 0);
    EXPECT_EQ(machine.recordings, failed);
  }
}

/// A recorded step has a round number of edges, but never more than a cohort.
TEST(Engine, RecordedStepsFitTheirCohort) {
  const ModelCase model("golden/mini.json");
  for (const int cohort : {7, 37, 64, 8192}) {
    SCOPED_TRACE(cohort);
    model::EvaluatorOptions options;
    options.cohort = cohort;
    StepEngine<float> engine(model.config(), model.weights(), options,
                             {std::make_unique<RecordingMachine>(), &noted_table()});
    const auto plain = model.make(options);
    for (const int n_edges : {1, 7, 30, 37, 38, 63, 64, 65}) {
      RandomStructure atoms(24, 6.5, 3, model.config().rcut, 1);
      ASSERT_GE(atoms.structure().edges.n_edges(), n_edges);
      const model::Structure structure = atoms.with_edges(n_edges);
      for (int step = 0; step < 3; ++step) {
        expect_same_bits(evaluate(engine, structure), evaluate(*plain, structure));
      }
    }
  }
}

/// Edges and results that stay in the memory of the device: the host reads no more than 64 bytes at
/// a time, however many cohorts there are.
TEST(Engine, StructuresOnTheDeviceGiveTheSameBits) {
  const ModelCase model("golden/mini.json");
  struct Case {
    std::optional<std::int64_t> memory;
    int cohort;
  };
  for (const Case& c : {Case{{}, 0}, Case{0, 0}, Case{{}, 1}, Case{{}, 61}, Case{0, 400}}) {
    SCOPED_TRACE(c.cohort);
    model::EvaluatorOptions options;
    options.memory = c.memory;
    options.cohort = c.cohort;
    auto machine = std::make_unique<RecordingMachine>();
    RecordingMachine* const watched = machine.get();
    StepEngine<float> engine(model.config(), model.weights(), options,
                             {std::move(machine), &noted_table()});
    for (const int n : {30, 11}) {
      RandomStructure atoms(n, 7.0, 3, model.config().rcut, 4);
      model::Structure structure = atoms.structure();
      const model::Evaluation expected = evaluate(*model.make(options), structure);
      structure.on_device = true;
      watched->largest_download = 0;
      // Three steps: the second is recorded, the third replayed. On the CPU the device is the host.
      const auto on_cpu = model.make(options);
      for (model::Evaluator* tested :
           {static_cast<model::Evaluator*>(&engine), static_cast<model::Evaluator*>(&engine),
            static_cast<model::Evaluator*>(&engine), on_cpu.get()}) {
        ASSERT_TRUE(tested->works_on_device());
        const model::DeviceResults results = evaluate(*tested, structure).device;
        ASSERT_EQ(results.atom_energy.extent(0), n);
        ASSERT_EQ(results.node_virial.extent(0), n);
        for (int i = 0; i < n; ++i) {
          ASSERT_EQ(results.atom_energy(i), expected.atom_energy[i]);
          for (int a = 0; a < 3; ++a) ASSERT_EQ(results.force(i, a), expected.force[3 * i + a]);
          for (int k = 0; k < 9; ++k) {
            ASSERT_EQ(results.node_virial(i, k), expected.atom_virial[9 * i + k]);
          }
        }
      }
      EXPECT_LE(watched->largest_download, 64U);
    }
  }
}

/// A structure in arrays that stay where they are, with padding behind the edges up to a fixed
/// number: what a device's edge builder hands over.
class PaddedStructure {
 public:
  PaddedStructure(int n_nodes, int room, double length)
      : length_(length),
        type_(n_nodes),
        src_(room),
        dst_(room),
        by_src_(room),
        dst_begin_(n_nodes + 1),
        src_begin_(n_nodes + 1),
        vec_(std::size_t{3} * room) {}

  model::Structure hold(const model::Structure& structure) {
    const graph::EdgeList& from = structure.edges;
    const int n = from.n_edges(), room = static_cast<int>(src_.size());
    std::copy_n(structure.type.data(), type_.size(), type_.begin());
    std::copy_n(from.src.data(), n, src_.begin());
    std::copy_n(from.dst.data(), n, dst_.begin());
    std::copy_n(from.by_src.data(), n, by_src_.begin());
    std::copy_n(from.vec.data(), 3 * n, vec_.begin());
    std::copy_n(from.dst_begin.data(), dst_begin_.size(), dst_begin_.begin());
    std::copy_n(from.src_begin.data(), src_begin_.size(), src_begin_.begin());
    for (int e = n; e < room; ++e) {
      src_[e] = dst_[e] = 0;
      by_src_[e] = e;
      vec_[3 * e] = length_;
      vec_[3 * e + 1] = vec_[3 * e + 2] = 0;
    }
    model::Structure padded = structure;
    padded.on_device = true;
    padded.type = {type_.data(), type_.size()};
    padded.edges.src = {src_.data(), room};
    padded.edges.dst = {dst_.data(), room};
    padded.edges.vec = {vec_.data(), room, 3};
    padded.edges.by_src = {by_src_.data(), room};
    padded.edges.dst_begin = {dst_begin_.data(), dst_begin_.size()};
    padded.edges.src_begin = {src_begin_.data(), src_begin_.size()};
    return padded;
  }

 private:
  double length_;
  std::vector<int> type_, src_, dst_, by_src_, dst_begin_, src_begin_;
  std::vector<double> vec_;
};

/// The number of real edges changes from step to step, down to none; the lists do not, so that all
/// but the first steps are replayed where they are small enough to be recorded.
TEST(Engine, PaddingBehindTheEdgesOfADeviceChangesNoBit) {
  const int n = 24;
  for (const char* const name : {"golden/mini.json", "golden/neo.json"}) {
    const ModelCase model(name);
    RandomStructure atoms(n, 6.5, 3, model.config().rcut, 1);
    const int n_edges = atoms.structure().edges.n_edges();
    for (const int cohort : {0, 61, n_edges + 40}) {
      SCOPED_TRACE(std::string(name) + ", cohort " + std::to_string(cohort));
      model::EvaluatorOptions options;
      options.cohort = cohort;
      auto machine = std::make_unique<RecordingMachine>();
      RecordingMachine* const watched = machine.get();
      StepEngine<float> engine(model.config(), model.weights(), options,
                               {std::move(machine), &noted_table()});
      const auto on_cpu = model.make(options);
      ASSERT_TRUE(engine.takes_padding() && on_cpu->takes_padding());
      PaddedStructure padded(n, n_edges + 50, model.config().rcut);
      for (const int count : {n_edges, n_edges - 1, n_edges - 7, 1, 0, n_edges}) {
        SCOPED_TRACE(count);
        const model::Structure exact = atoms.with_edges(count);
        const model::Evaluation expected = evaluate(*model.make(options), exact);
        for (model::Evaluator* tested : {static_cast<model::Evaluator*>(&engine), on_cpu.get()}) {
          const model::DeviceResults results = evaluate(*tested, padded.hold(exact)).device;
          for (int i = 0; i < n; ++i) {
            ASSERT_EQ(results.atom_energy(i), expected.atom_energy[i]);
            for (int a = 0; a < 3; ++a) ASSERT_EQ(results.force(i, a), expected.force[3 * i + a]);
            for (int k = 0; k < 9; ++k) {
              ASSERT_EQ(results.node_virial(i, k), expected.atom_virial[9 * i + k]);
            }
          }
        }
      }
      if (cohort == 0) {
        EXPECT_EQ(watched->recordings, 1);
        EXPECT_EQ(watched->replays, 5);
      }
    }
  }
}

TEST(Engine, ProfileTellsCallsTimesAndArithmetic) {
  const ModelCase model("golden/neo.json");
  model::EvaluatorOptions options;
  options.profile = true;
  const auto engine = model.make(options);
  RandomStructure atoms(20, 7.0, 3, model.config().rcut, 1);
  const model::Evaluation profiled = evaluate(*engine, atoms.structure());
  const std::vector<model::OperationTime> times = engine->take_profile();
  const auto found = std::find_if(times.begin(), times.end(),
                                  [](const auto& time) { return time.name == "so2_stack"; });
  ASSERT_NE(found, times.end());
  EXPECT_GE(found->calls, static_cast<std::int64_t>(model.config().blocks.size()));
  EXPECT_GT(found->seconds, 0);
  // Twice the weights of an edge's stack, at least.
  const double edges = atoms.structure().edges.n_edges();
  const double width = model.config().blocks[0].lmax * model.config().focus_dim;
  EXPECT_GT(found->flops, 2 * edges * width * width);
  for (std::size_t i = 1; i < times.size(); ++i) EXPECT_GE(times[i - 1].seconds, times[i].seconds);
  EXPECT_TRUE(engine->take_profile().empty());
  options.profile = false;
  const auto plain = model.make(options);
  expect_same_bits(profiled, evaluate(*plain, atoms.structure()));
  EXPECT_TRUE(plain->take_profile().empty());
}

TEST(Engine, TwoThousandNeighborsAreRight) {
  const ModelCase model("golden/nano.json");
  RandomStructure atoms(420, 8.5, 3, model.config().rcut, 6);
  const graph::EdgeList& edges = atoms.structure().edges;
  int most = 0;
  for (int i = 0; i < edges.n_nodes; ++i) {
    most = std::max(most, edges.dst_begin(i + 1) - edges.dst_begin(i));
  }
  // Dense as nothing real, and every atom has more edges than a cohort.
  ASSERT_GE(most, 500);
  model::EvaluatorOptions options;
  options.precision = Precision::kFloat64;
  options.cohort = 61;
  const model::Evaluation small = evaluate(*literal_engine(model, options), atoms.structure());
  options.cohort = 1 << 15;
  const model::Evaluation large = evaluate(*literal_engine(model, options), atoms.structure());
  EXPECT_LT(force_difference(large, small), 1e-11);
  EXPECT_NEAR(small.energy, large.energy, 1e-9 * std::abs(large.energy));
}

TEST(Engine, NoAtomsAndAtomsWithoutEdgesAreLegal) {
  const ModelCase model("golden/mini.json");
  const auto evaluator = model.make({});
  const int begin[4] = {0, 0, 0, 0}, type[3] = {0, 1, 2};
  model::Structure structure;
  structure.edges.dst_begin = structure.edges.src_begin = {begin, 1};
  const model::Evaluation empty = evaluate(*evaluator, structure);
  EXPECT_EQ(empty.energy, 0);
  EXPECT_TRUE(empty.force.empty());

  structure.type = {type, 3};
  structure.edges.n_owned = structure.edges.n_nodes = 3;
  structure.edges.dst_begin = structure.edges.src_begin = {begin, 4};
  const model::Evaluation isolated = evaluate(*evaluator, structure);
  EXPECT_EQ(isolated.force, std::vector<double>(9, 0.0));
  EXPECT_NEAR(isolated.energy,
              isolated.atom_energy[0] + isolated.atom_energy[1] + isolated.atom_energy[2], 1e-9);
}

TEST(Engine, InputsAreNotWritten) {
  const ModelCase model("golden/mini.json");
  RandomStructure atoms(60, 8.0, 3, model.config().rcut, 7);
  const graph::EdgeList& edges = atoms.structure().edges;
  const auto copy = [](const auto& view) {
    return std::vector(view.data(), view.data() + view.size());
  };
  const auto src = copy(edges.src), dst = copy(edges.dst), by_src = copy(edges.by_src);
  const auto vec = copy(edges.vec);
  evaluate(*model.make({}), atoms.structure());
  EXPECT_EQ(copy(edges.src), src);
  EXPECT_EQ(copy(edges.dst), dst);
  EXPECT_EQ(copy(edges.by_src), by_src);
  EXPECT_EQ(copy(edges.vec), vec);
}

/// Energies of displaced atoms against the forces, for the released sizes with random weights.
class Forces : public ::testing::TestWithParam<const char*> {};

TEST_P(Forces, AreTheSlopeOfTheEnergy) {
  model::ModelConfig config = model::preset(GetParam(), {"Si", "C"});
  config.rcut = 4.0;
  const model::Weights weights = model::random_weights(config, 3);
  model::EvaluatorOptions options;
  options.precision = Precision::kFloat64;
  const auto evaluator = make_evaluator(config, weights, options);
  // A distorted cubic lattice with one site empty: no atoms on top of each other.
  constexpr int kAtoms = 7;
  std::mt19937 random(11);
  std::uniform_real_distribution<double> shift(-0.3, 0.3);
  std::vector<double> x;
  for (int site = 0; site < kAtoms; ++site) {
    for (int a = 0; a < 3; ++a) x.push_back(2.2 * ((site >> a) & 1) + shift(random));
  }
  const std::vector<int> type = {0, 1, 1, 0, 1, 0, 0};
  graph::PeriodicGraph graph(config.rcut, 2);
  const graph::Cell cell = graph::Cell::periodic_3d({{{4.4, 0, 0}, {0.3, 4.5, 0}, {0, -0.4, 4.6}}});
  const auto run = [&] {
    model::Structure structure;
    structure.type = {type.data(), kAtoms};
    structure.edges = graph.build({x.data(), kAtoms, 3}, structure.type, cell);
    return evaluate(*evaluator, structure);
  };
  const model::Evaluation result = run();
  for (std::size_t i : {std::size_t{0}, std::size_t{7}, std::size_t{20}}) {
    // Sixth-order difference; the step balances its error and the rounding of the energy.
    constexpr double kStep = 3e-4;
    const double weight[3] = {45.0 / 60, -9.0 / 60, 1.0 / 60};
    double slope = 0;
    const double start = x[i];
    for (int k = 1; k <= 3; ++k) {
      x[i] = start + k * kStep;
      const double above = run().energy;
      x[i] = start - k * kStep;
      slope += weight[k - 1] * (above - run().energy) / kStep;
    }
    x[i] = start;
    EXPECT_NEAR(result.force[i], -slope, 1e-6 * (1 + std::abs(slope))) << "coordinate " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Forces, ::testing::Values("nano", "mini", "neo", "plus"));

class Ranks : public ::testing::TestWithParam<const char*> {};

TEST_P(Ranks, TwoGiveTheResultOfOne) {
  const ModelCase model(std::string("golden/") + GetParam() + ".json");
  model::EvaluatorOptions options;
  options.precision = Precision::kFloat64;
  RandomStructure atoms(40, 9.0, model.config().n_types(), model.config().rcut, 21);
  const auto one = model.make(options);
  const model::Evaluation expected = evaluate(*one, atoms.structure());
  for (int owned_by_first : {20, 40, 0}) {
    const auto first = model.make(options), second = model.make(options);
    const model::Evaluation both =
        evaluate_on_two_ranks(*first, *second, atoms.structure(), owned_by_first);
    EXPECT_NEAR(both.energy, expected.energy, 1e-10 * std::abs(expected.energy));
    ASSERT_EQ(both.force.size(), expected.force.size());
    for (std::size_t i = 0; i < both.force.size(); ++i) {
      EXPECT_NEAR(both.force[i], expected.force[i], 1e-10) << i;
    }
    for (std::size_t i = 0; i < both.atom_virial.size(); ++i) {
      EXPECT_NEAR(both.atom_virial[i], expected.atom_virial[i], 1e-10) << i;
    }
    for (std::size_t k = 0; k < 9; ++k) {
      EXPECT_NEAR(both.virial[k], expected.virial[k], 1e-9) << k;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Ranks,
                         ::testing::Values("mini", "mini_prenorm", "zbl", "noseed", "noatten",
                                           "zeroblocks"));

}  // namespace
}  // namespace dpa4::native::testing
