// Counters of an optimizer step in flight, for each way in which it can end.
#include "runner/train/engine/in_flight_step.h"

#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "runner/train/step/declared_step.h"
#include "schema/base/error.h"
#include "tests/backends/support/inert_device.h"

namespace runner::train {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Behaves like a device that has run the step of an optimizer step or has failed in it.
class OutcomeDevice final : public backends::testing::InertDevice {
 public:
  bool fails = false, finite = true, has_written = true;
  float norm = 0;

  void wait(backends::Ticket) override { RUN_CHECK(!fails, ErrorKind::kRun, "an op has failed"); }
  void read_output(backends::Executable&, int index, std::span<std::byte> target) override {
    if (index == kFinite) {
      std::memcpy(target.data(), &finite, 1);
    } else if (index == kGradNorm) {
      std::memcpy(target.data(), &norm, sizeof norm);
    } else {  // Σ of the metric, and its weight
      const double number = index == kGradNorm + 1 ? 6 : 2;
      std::memcpy(target.data(), &number, sizeof number);
    }
  }
  bool has_written_states() const override { return has_written; }
};

class InFlightStepTest : public ::testing::TestWithParam<schema::OnNan> {
 protected:
  InFlightStepTest() {
    recipe.train.on_nan = GetParam();
    recipe.train.clip_grad_norm = 1.0;
    result.samples = 12;
    result.repeats = 3;
  }

  double sum_in(const MetricSums& sums) const { return sums.contains("metric") ? sums.at("metric").sum : 0; }
  bool skips() const { return GetParam() == schema::OnNan::kSkip; }
  void submit() { in_flight.set_submitted({1, step, &recorded, /*completes=*/true, {BatchPlace::Of::kTraining, 1}}); }
  void end() { in_flight.end(step, {.factor = 0.5, .schedule_steps = 2}, result); }

  schema::Recipe recipe;
  const Optimizers optimizers{.names = {"a", "b"}, .groups = {}, .lr = 0.1};
  const Counters before{
      .steps = 5, .applied = 4, .samples = 60, .scheduled = 8, .updates = {{"a", 4}, {"b", 2}}, .repeats = 1};
  Counters counters = before;
  OutcomeDevice device;
  const StepBuilder::Recorded recorded = [] {
    StepBuilder::Recorded with_metric;
    with_metric.metrics.push_back({"metric", 0, 0});
    return with_metric;
  }();
  const SharedStep step = compiled_step(std::make_shared<backends::testing::InertExecutable>());
  StepResult result;
  StepMetrics metrics;
  InFlightStep in_flight{recipe, device, optimizers, counters, metrics, /*device_counts=*/false};
};

TEST_P(InFlightStepTest, CountsWhenItEnds) {
  device.norm = 2.5F;
  submit();
  end();
  const Counters counted{
      .steps = 6, .applied = 5, .samples = 72, .scheduled = 10, .updates = {{"a", 5}, {"b", 3}}, .repeats = 4};
  EXPECT_EQ(counters, counted);
  in_flight.wait();
  EXPECT_EQ(counters, counted);
  ASSERT_TRUE(in_flight.has_ended());
  in_flight.resolve(result);
  EXPECT_TRUE(result.finite);
  EXPECT_EQ(result.grad_norm, 2.5);
  EXPECT_EQ(sum_in(metrics.ended), 6);
  EXPECT_FALSE(in_flight.has_ended());
}

TEST_P(InFlightStepTest, ANotFiniteStepIsRolledBack) {
  device.finite = false;
  device.norm = kNan;
  submit();
  end();
  in_flight.wait();
  Counters counted = before;
  if (skips()) counted.steps = 6, counted.samples = 72, counted.repeats = 4;  // a skipped optimizer step counts
  EXPECT_EQ(counters, counted);
  if (skips()) {
    EXPECT_NO_THROW(in_flight.check());
  } else {
    EXPECT_THROW(in_flight.check(), Error) << "no step may follow it";
  }
  in_flight.resolve(result);
  EXPECT_FALSE(result.finite);
  EXPECT_EQ(sum_in(metrics.ended), 0);
  EXPECT_EQ(sum_in(metrics.in_step()), 0);
}

TEST_P(InFlightStepTest, MayBeHalfUpdatedUntilItIsDone) {
  EXPECT_FALSE(in_flight.may_be_half_updated());
  in_flight.begin_update();
  EXPECT_TRUE(in_flight.may_be_half_updated());
  submit();
  in_flight.wait();
  EXPECT_TRUE(in_flight.may_be_half_updated()) << "the finished work has not been counted";

  in_flight.begin_update();
  submit();
  end();
  EXPECT_TRUE(in_flight.may_be_half_updated());
  in_flight.wait();
  EXPECT_FALSE(in_flight.may_be_half_updated());

  const Counters counted = counters;
  in_flight.begin_update();
  submit();
  in_flight.wait();
  EXPECT_TRUE(in_flight.may_be_half_updated()) << "the previous step has ended, this one has not";
  EXPECT_EQ(counters, counted);
  in_flight.resolve(result);
  end();
  in_flight.wait();

  in_flight.begin_update_of_all();
  EXPECT_TRUE(in_flight.may_be_half_updated());
  end();
  EXPECT_FALSE(in_flight.may_be_half_updated());
}

TEST_P(InFlightStepTest, IsUnchangedIfAnOpFailsBeforeAllUpdates) {
  device.fails = true;
  for (const bool has_written : {true, false}) {
    device.has_written = has_written;
    in_flight.begin_update();
    submit();
    end();
    in_flight.wait();
    EXPECT_THROW(in_flight.throw_failure(), Error);
    EXPECT_EQ(in_flight.may_be_half_updated(), has_written);
  }
  device.has_written = false;
  in_flight.begin_update_of_all();
  EXPECT_TRUE(in_flight.may_be_half_updated()) << "other ranks may have updated their shards";
}

// Metrics of its batches are added before it is known how the optimizer step ends; they may already be reduced.
TEST_P(InFlightStepTest, AllMetricsOfAnOptimizerStepCountOrNone) {
  for (const bool finite : {false, true}) {
    device.finite = finite;
    metrics = {.ended = {{"metric", {1, 1}}}, .step = {{"metric", {10, 1}}}, .batches = {{"metric", {20, 1}}}};
    in_flight.begin();
    submit();
    end();
    in_flight.wait();
    EXPECT_EQ(sum_in(metrics.ended), finite ? 1 + 10 + 20 + 6 : 1);
    EXPECT_EQ(sum_in(metrics.in_step()), 0);
    in_flight.resolve(result);
  }
}

TEST_P(InFlightStepTest, AFailureIsRolledBackAndThrownUntilCleared) {
  device.fails = true;
  submit();
  end();
  in_flight.wait();
  EXPECT_EQ(counters, before);
  EXPECT_FALSE(in_flight.has_ended());
  EXPECT_THROW(in_flight.check(), Error);
  EXPECT_THROW(in_flight.check(), Error);
  EXPECT_THROW(in_flight.throw_failure(), Error);
  EXPECT_NO_THROW(in_flight.throw_failure());
  EXPECT_NO_THROW(in_flight.check());
}

// The host may throw between the submission and the end of the optimizer step.
TEST_P(InFlightStepTest, AFailureBeforeTheEndIsCountedRollsNothingBack) {
  device.fails = true;
  submit();
  in_flight.wait();
  EXPECT_EQ(counters, before);
  EXPECT_THROW(in_flight.throw_failure(), Error);
}

INSTANTIATE_TEST_SUITE_P(OnNan, InFlightStepTest, ::testing::Values(schema::OnNan::kStop, schema::OnNan::kSkip));

}  // namespace
}  // namespace runner::train
