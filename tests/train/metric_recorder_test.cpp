// Logging costs the training thread only a write to memory: fifty metrics per step allocate nothing, never block, and
// all arrive.

#include "runner/train/run/metric_recorder.h"

#include <array>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/allocations.h"
#include "tests/support/page_faults.h"
#include "tests/support/sanitizers.h"
#include "tests/support/sqlite_calls.h"
#include "tests/train/run_fixture.h"

namespace runner::train {
namespace {

constexpr size_t kMetrics = 50;
constexpr int64_t kSteps = 10'000, kStepsBetweenFlushes = 200;

// Number of voluntary context switches of the calling thread.
int64_t waits_of_this_thread() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return support::kSanitized ? 0 : usage.ru_nvcsw;  // a sanitizer has locks of its own
}

class Logging : public RunFixture {};

TEST_F(Logging, FiftyMetricsPerStepDoNotBlockTheThread) {
  std::array<std::string, kMetrics> names;
  for (size_t i = 0; i < kMetrics; ++i) names[i] = fmt::format("train/norm of the gradient of layer {}", i);
  store::RunInfo info;
  info.uid = store::new_run_uid();
  store::RunWriter writer(store::Store::open(path("runner.db"), store::Access::kWrite), info);
  MetricRecorder recorder(&writer);
  const auto log_step = [&](int64_t step) {
    for (size_t i = 0; i < kMetrics; ++i)
      recorder.add(names[i], step, static_cast<double>(step) + static_cast<double>(i) / 64);
  };
  log_step(0);
  writer.flush();
  for (int64_t step = 1; step <= kSteps;) {
    const int64_t allocations = support::allocations_of_this_thread(), faults = support::page_faults_of_this_thread(),
                  waits = waits_of_this_thread(), sqlite_calls = support::sqlite_calls_of_this_thread();
    for (int64_t i = 0; i < kStepsBetweenFlushes; ++i) log_step(step++);
    ASSERT_EQ(waits_of_this_thread(), waits) << "before step " << step;
    ASSERT_EQ(support::allocations_of_this_thread(), allocations) << "before step " << step;
    ASSERT_EQ(support::page_faults_of_this_thread(), faults) << "before step " << step;
    ASSERT_EQ(support::sqlite_calls_of_this_thread(), sqlite_calls) << "before step " << step;
    writer.flush();  // the only wait; otherwise steps without work would fill the ring
  }
  EXPECT_EQ(writer.counters().dropped, 0);
  writer.finish({.status = store::RunStatus::kDone, .exit_code = 0, .reason = "", .summary_json = "{}"});
  for (size_t i = 0; i < kMetrics; ++i) {
    const auto recorded = points(names[i]);
    ASSERT_EQ(recorded.size(), static_cast<size_t>(kSteps) + 1) << names[i];
    const auto last = std::pair(kSteps, static_cast<double>(kSteps) + static_cast<double>(i) / 64);
    EXPECT_EQ(recorded.back(), last);
  }
}

}  // namespace
}  // namespace runner::train
