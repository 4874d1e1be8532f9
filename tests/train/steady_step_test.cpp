// A repeated step of the whole trainer costs the training thread only the step itself: no allocation, no page fault, no
// SQLite call. Counted, not timed.

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "store/sqlite.h"
#include "tests/support/allocations.h"
#include "tests/support/page_faults.h"
#include "tests/support/sanitizers.h"
#include "tests/support/sqlite_calls.h"
#include "tests/train/run_fixture.h"

namespace runner::train {
namespace {

// Counts of the calling thread so far.
struct Counts {
  int64_t allocations, page_faults, sqlite_calls;

  static Counts now() {
    return {support::allocations_of_this_thread(), support::page_faults_of_this_thread(),
            support::sqlite_calls_of_this_thread()};
  }
};

// An epoch has seven batches, the last one of 8 samples, in optimizer steps of three, three and one.
const std::string kSteady = R"(schema_version: 1
name: steady
gradient_accumulation_steps: 3
model: {type: mlp, hidden: [300, 100], activation: gelu, layer_norm: true, dropout: 0.1}
data: {train: {format: synthetic, samples: 200, features: [64], classes: 10}, batch_size: 32}
optimizer: {type: adamw, lr: 1e-3}
scheduler: {type: cosine, warmup: 10 steps}
train: {epochs: 80, clip_grad_norm: 1}
log: {every: 1 step}
)";
constexpr size_t kSteadySteps = 240;
constexpr size_t kWarmUp = 6;  // every shape of step has been used twice
// oneDNN allocates memory for some products and frees it, and the C library reuses the same pages only after a number
// of rounds on each thread.
constexpr size_t kPagesWarmUp = 120;

class SteadyStep : public RunFixture {
 protected:
  void expect_nothing_but_the_step(const std::vector<std::string>& overrides) {
    SCOPED_TRACE(overrides.empty() ? "as written" : overrides[0]);
    std::vector<Counts> counts;
    counts.reserve(kSteadySteps);
    const int64_t onednn = support::onednn_allocations();
    const auto count = [&](const RunProgress&) { counts.push_back(Counts::now()); };
    ASSERT_EQ(train(kSteady, {.overrides = overrides, .on_step = count}).exit_code, 0);
    ASSERT_EQ(points("train/loss").size(), kSteadySteps);
    ASSERT_EQ(counts.size(), kSteadySteps);
    RecordProperty("onednn_allocations", std::to_string(support::onednn_allocations() - onednn));
    // The last step is excluded: it ends the run and saves a checkpoint.
    for (size_t step = kWarmUp; step + 1 < kSteadySteps; ++step) {
      ASSERT_EQ(counts[step].sqlite_calls, counts[step - 1].sqlite_calls) << "step " << step + 1;
      ASSERT_EQ(counts[step].allocations, counts[step - 1].allocations) << "step " << step + 1;
      if (step < kPagesWarmUp) continue;
      ASSERT_EQ(counts[step].page_faults, counts[step - 1].page_faults) << "step " << step + 1;
    }
  }
};

TEST_F(SteadyStep, InF32) {
  expect_nothing_but_the_step({});
}
TEST_F(SteadyStep, InBf16) {
  expect_nothing_but_the_step({"mixed_precision=bf16"});
}
TEST_F(SteadyStep, OfALargerModel) {
  expect_nothing_but_the_step({"model.hidden=[512, 512]", "data.train.samples=800", "data.batch_size=128"});
}
TEST_F(SteadyStep, OnOneThread) {
  expect_nothing_but_the_step({"threads=1"});
}
TEST_F(SteadyStep, WithoutPrefetch) {
  expect_nothing_but_the_step({"data.prefetch=0"});
}

TEST(Counters, CountAllocations) {
  const Counts before = Counts::now();
  ::operator delete(::operator new(1));
  EXPECT_EQ(Counts::now().allocations, before.allocations + 1);
}

TEST(Counters, CountPageFaults) {
  constexpr size_t kPage = 4096;
  const Counts before = Counts::now();
  void* memory = mmap(nullptr, 4 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  for (size_t at = 0; at < 4 * kPage; at += kPage) static_cast<volatile char*>(memory)[at] = 1;
  EXPECT_GE(Counts::now().page_faults, before.page_faults + (support::kSanitized ? 0 : 4));
  munmap(memory, 4 * kPage);
}

TEST_F(SteadyStep, CountsSqliteCalls) {
  const auto calls_of = [](const auto& action) {
    const int64_t before = Counts::now().sqlite_calls;
    action();
    return Counts::now().sqlite_calls - before;
  };
  std::optional<store::Database> database;
  EXPECT_GT(calls_of([&] { database.emplace(path("some.db"), store::OpenMode::kCreate); }), 0);
  std::optional<store::Statement> select;
  EXPECT_GT(calls_of([&] { select.emplace(*database, "SELECT ?1"); }), 0);
  select->bind(1).run();
  EXPECT_GT(calls_of([&] { select->bind(1).step(); }), 0);
  EXPECT_GT(calls_of([&] { select.reset(); }), 0);
  EXPECT_GT(calls_of([&] { database.reset(); }), 0);
}

}  // namespace
}  // namespace runner::train
