// Graphs that another device has compiled: hits, counters, and damaged entries.
#include <map>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/ir/ops.h"
#include "backends/tpu/persistent_cache.h"
#include "backends/tpu/tpu_device_model.h"
#include "tests/backends/support/run_program.h"

namespace runner::backends::tpu::testing {
namespace {

class MapStore : public GraphStore {
 public:
  using Bytes = std::vector<std::byte>;

  std::optional<Bytes> find(EntryBytes made_from) override {
    const auto found = entries.find(Bytes(made_from.begin(), made_from.end()));
    if (found == entries.end()) return std::nullopt;
    return found->second;
  }
  std::string name_of(EntryBytes made_from) const override {
    return fmt::format("entry of {} bytes", made_from.size());
  }
  void put(EntryBytes made_from, EntryBytes entry) override {
    entries[Bytes(made_from.begin(), made_from.end())] = Bytes(entry.begin(), entry.end());
  }

  std::map<Bytes, Bytes> entries;
};

// w (4, 3) ← w − lr · xᵀx w, and Σ w.
Program step_of(int64_t rows) {
  Program program;
  const Value w{&program, program.input(InputKind::kState, "w", {DType::kF32, Shape{4, 3}})};
  const Value x{&program, program.input(InputKind::kBatch, "x", {DType::kF32, Shape{rows, 4}})};
  const Value gradient = ops::matmul(x, ops::matmul(x, w), true, false);
  const Value now = ops::sub(w, gradient);
  program.output("w", now.id, 0);
  program.output("sum", ops::sum(now).id);
  return program;
}

struct Outcome {
  std::map<std::string, int64_t> counters, metrics;
  std::vector<std::string> warnings;
  std::vector<std::string> causes, keys;
  float sum = 0;
};

// Runs two steps on a new device.
Outcome train(GraphStore* store, const Hardware& hardware = {}, int64_t rows = 5) {
  const auto device = make_tpu_device({.hardware = hardware});
  if (store != nullptr) model_of_tpu(*device).keep_graphs_in(*store);
  const Program program = step_of(rows);
  const auto step = device->compile(program);
  const auto w = device->allocate(4 * 3 * sizeof(float));
  std::vector<float> weights(12), features(static_cast<size_t>(rows) * 4);
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(i) / 8;
  for (size_t i = 0; i < features.size(); ++i) features[i] = static_cast<float>(i % 5) / 4;
  device->write(*w, 0, std::as_bytes(std::span(weights)));
  Buffer* const states[] = {w.get()};
  const std::byte* const batch[] = {reinterpret_cast<const std::byte*>(features.data())};
  Outcome outcome;
  for (const int64_t number : {1, 2}) {
    device->submit(*step, {.states = states, .batch = batch, .scalars = {}}, {.step = number});
    device->read_output(*step, 1, std::as_writable_bytes(std::span(&outcome.sum, 1)));
  }
  const MetricsSnapshot snapshot = model_of_tpu(*device).metrics();
  for (const CounterSnapshot& counter : snapshot.counters) outcome.counters[counter.name] = counter.value;
  for (const MetricSnapshot& metric : snapshot.metrics) outcome.metrics[metric.name] = metric.count;
  outcome.warnings = device->take_warnings();
  for (const Graph& graph : model_of_tpu(*device).graphs()) {
    outcome.causes.push_back(graph.cause.text);
    outcome.keys.push_back(graph.key.to_string());
  }
  return outcome;
}

// Counters as in PyTorch/XLA (torch_xla/csrc/runtime/cache.h).
struct Counts {
  int64_t hit, miss, failure, uncached, cached;
};
void expect_counts(const Outcome& outcome, const Counts& want) {
  EXPECT_EQ(outcome.counters.at("PersistentCacheHit"), want.hit);
  EXPECT_EQ(outcome.counters.at("PersistentCacheMiss"), want.miss);
  EXPECT_EQ(outcome.counters.at("PersistentCacheDeserializeFailure"), want.failure);
  EXPECT_EQ(outcome.counters.at("UncachedCompile"), want.uncached);
  EXPECT_EQ(outcome.counters.at("CachedCompile"), want.cached);
  EXPECT_EQ(outcome.metrics.at("CompileTime"), want.uncached) << "a cache hit is not a compilation";
  EXPECT_EQ(outcome.counters.at("CreateCompileHandles"), want.uncached);
  EXPECT_EQ(outcome.metrics.at("ExecuteTime"), want.uncached + want.cached);
  EXPECT_EQ(outcome.metrics.at("PersistentCacheLoad"), want.hit);
}

constexpr Counts kWithout{.hit = 0, .miss = 0, .failure = 0, .uncached = 1, .cached = 1};
constexpr Counts kMiss{.hit = 0, .miss = 1, .failure = 0, .uncached = 1, .cached = 1};
constexpr Counts kHit{.hit = 1, .miss = 0, .failure = 0, .uncached = 0, .cached = 2};
constexpr Counts kFailure{.hit = 0, .miss = 0, .failure = 1, .uncached = 1, .cached = 1};

TEST(TpuPersistentCache, StoredGraphsAreNotCompiled) {
  const Outcome without = train(nullptr);
  expect_counts(without, kWithout);
  MapStore store;
  const Outcome first = train(&store);
  expect_counts(first, kMiss);
  EXPECT_EQ(store.entries.size(), 2U) << "a step for the host, and its graph";
  const Outcome second = train(&store);
  expect_counts(second, kHit);
  EXPECT_EQ(second.sum, without.sum);
  EXPECT_EQ(first.causes, std::vector<std::string>{"the first graph"});
  EXPECT_EQ(second.causes, std::vector<std::string>{"loaded from the persistent cache"});
  EXPECT_TRUE(second.warnings.empty());
}

TEST(TpuPersistentCache, MissesOtherShapesAndOtherHardware) {
  MapStore store;
  train(&store);
  expect_counts(train(&store, {}, 6), kMiss);
  expect_counts(train(&store, {.machine = {}, .types = kBf16Types}), kMiss);
  expect_counts(train(&store, {.machine = {.generation = Generation::kV2}}), kMiss);
  expect_counts(train(&store, {.machine = {.precision = MatmulPrecision::kHighest}}), kMiss);
  expect_counts(train(&store), kHit);
}

// Damages bytes of the inputs and of the result: all damage is reported, no damaged entry is used, and the entry is
// replaced by a good one.
TEST(TpuPersistentCache, DamageIsReportedAndRepaired) {
  MapStore good;
  const Outcome reference = train(&good);
  for (const auto& [made_from, entry] : good.entries) {
    for (size_t at = 0; at < entry.size(); at += 1 + entry.size() / 40) {
      MapStore store = good;
      store.entries[made_from].resize(at);
      const Outcome outcome = train(&store);
      expect_counts(outcome, kFailure);
      EXPECT_EQ(outcome.sum, reference.sum);
      ASSERT_EQ(outcome.warnings.size(), 1U);
      const std::string begin = fmt::format("tpu.persistent_cache: entry of {} bytes is damaged: ", made_from.size());
      EXPECT_TRUE(outcome.warnings[0].starts_with(begin)) << outcome.warnings[0];
      EXPECT_TRUE(outcome.warnings[0].ends_with("; compiling graph " + outcome.keys.at(0) + " again"))
          << outcome.warnings[0];
      EXPECT_EQ(store.entries, good.entries);
      expect_counts(train(&store), kHit);
    }
  }
}

TEST(TpuPersistentCache, AnEntryOfSomethingElseIsDamage) {
  MapStore store, other;
  train(&store);
  train(&other, {}, 6);
  auto of_other = other.entries.begin();
  for (auto& [made_from, entry] : store.entries) entry = (of_other++)->second;
  const Outcome outcome = train(&store);
  expect_counts(outcome, kFailure);
  EXPECT_NE(outcome.warnings.at(0).find("it was compiled from another graph"), std::string::npos);
}

}  // namespace
}  // namespace runner::backends::tpu::testing
