// Schedules against transformers, torch and accelerate (tests/golden/schedules.json); their units, state and errors.
#include "runner/optim/lr_schedule.h"

#include <cmath>
#include <limits>
#include <map>

#include <gtest/gtest.h>

#include "schema/base/error.h"
#include "tests/golden/golden.h"

namespace runner::optim {
namespace {

using schema::Length;
using schema::SchedulerSpec;
using schema::SchedulerType;
using schema::Unit;
using testing::Golden;

const RunLength kScale{.total_steps = 100, .steps_per_epoch = 10, .samples_per_epoch = 76, .samples_per_step = 8};

SchedulerType type_of(const std::string& name) {
  const std::map<std::string, SchedulerType> types = {
      {"constant", SchedulerType::kConstant},
      {"linear", SchedulerType::kLinear},
      {"cosine", SchedulerType::kCosine},
      {"cosine_restarts", SchedulerType::kCosineRestarts},
      {"polynomial", SchedulerType::kPolynomial},
      {"one_cycle", SchedulerType::kOneCycle},
      {"step", SchedulerType::kStep},
      {"exponential", SchedulerType::kExponential},
      {"plateau", SchedulerType::kPlateau},
  };
  return types.at(name);
}

// Builds the spec that a golden case describes. An unknown key fails the test.
SchedulerSpec spec_of(const Golden& item) {
  SchedulerSpec spec;
  spec.type = type_of(item["type"].text());
  if (spec.type == SchedulerType::kCosineRestarts) spec.cycles = 1;
  if (spec.type == SchedulerType::kExponential) spec.every = Length{1, Unit::kSteps};
  if (item.has("compat_processes")) spec.compat = schema::Compat::kAccelerate;
  const std::map<std::string, double*> numbers = {
      {"cycles", &spec.cycles},
      {"power", &spec.power},
      {"end", &spec.end},
      {"max_lr", &spec.max_lr},
      {"pct_start", &spec.pct_start},
      {"div_factor", &spec.div_factor},
      {"final_div_factor", &spec.final_div_factor},
      {"base_momentum", &spec.base_momentum},
      {"max_momentum", &spec.max_momentum},
      {"gamma", &spec.gamma},
      {"factor", &spec.factor},
      {"threshold", &spec.threshold},
      {"min_lr", &spec.min_lr},
      {"eps", &spec.eps},
  };
  const std::map<std::string, std::optional<Length>*> lengths = {{"warmup", &spec.warmup}, {"length", &spec.length}};
  const Golden keys = item["keys"];
  for (const std::string& key : keys.keys()) {
    const Golden value = keys[key];
    if (numbers.count(key) != 0) {
      *numbers.at(key) = value.number();
    } else if (lengths.count(key) != 0) {
      *lengths.at(key) = Length{value.integer(), Unit::kSteps};
    } else if (key == "every") {
      spec.every = Length{value.integer(), Unit::kSteps};
    } else if (key == "patience") {
      spec.patience = value.integer();
    } else if (key == "cooldown") {
      spec.cooldown = value.integer();
    } else if (key == "anneal_strategy") {
      spec.anneal_strategy = value.text() == "cos" ? schema::AnnealStrategy::kCos : schema::AnnealStrategy::kLinear;
    } else if (key == "three_phase") {
      spec.three_phase = value.flag();
    } else if (key == "cycle_momentum") {
      spec.cycle_momentum = value.flag();
    } else if (key == "mode") {
      continue;  // maximizes()
    } else if (key == "threshold_mode") {
      spec.threshold_mode = value.text() == "rel" ? schema::ThresholdMode::kRel : schema::ThresholdMode::kAbs;
    } else {
      ADD_FAILURE() << "unknown key " << key;
    }
  }
  return spec;
}

bool maximizes(const Golden& item) {
  return item["keys"].has("mode") && item["keys"]["mode"].text() == "max";
}

LrSchedule schedule_of(const Golden& item) {
  RunLength scale = kScale;
  if (item.has("compat_processes")) scale.num_processes = item["compat_processes"].integer();
  return LrSchedule(spec_of(item), item["lr"].number(), scale);
}

// Both sides round a few f64 operations; StepLR and ExponentialLR multiply once per decay, up to 60 times. Where terms
// cancel on the way down, the error is proportional to `top`, the highest learning rate.
void expect_close(double got, double expected, double top, int64_t step) {
  EXPECT_NEAR(got, expected, 1e-12 * std::abs(expected) + 1e-16 * top) << "at step " << step;
}

TEST(LrSchedule, EqualsTheReferencesStepByStep) {
  int tables = 0;
  for (const Golden& item : Golden::load("schedules.json").cases()) {
    if (item.has("metrics")) continue;
    SCOPED_TRACE(item.name());
    ++tables;
    const LrSchedule schedule = schedule_of(item);
    const double lr = item["lr"].number();
    const std::vector<double> rates = item["rates"].numbers();
    const std::vector<double> momenta = item.has("momenta") ? item["momenta"].numbers() : std::vector<double>();
    for (size_t i = 0; i < rates.size(); ++i) {
      const int64_t step = static_cast<int64_t>(i), at = step * schedule.steps_per_update();
      expect_close(lr * schedule.factor(at), rates[i], lr, step);
      ASSERT_EQ(schedule.momentum(at).has_value(), !momenta.empty());
      if (!momenta.empty()) expect_close(*schedule.momentum(at), momenta[i], 1.0, step);
    }
  }
  EXPECT_EQ(tables, 37);
}

TEST(LrSchedule, PlateauEqualsTorchAfterEachEvaluation) {
  int tables = 0;
  for (const Golden& item : Golden::load("schedules.json").cases()) {
    if (!item.has("metrics")) continue;
    SCOPED_TRACE(item.name());
    ++tables;
    LrSchedule schedule = schedule_of(item);
    const double lr = item["lr"].number();
    const std::vector<double> rates = item["rates"].numbers();
    const std::vector<double> metrics = item["metrics"].numbers();
    for (size_t i = 0; i < rates.size(); ++i) {
      const double before = schedule.factor(0);
      const bool lowered = schedule.observe(metrics[i], maximizes(item));
      EXPECT_EQ(lowered, schedule.factor(0) < before);
      expect_close(lr * schedule.factor(0), rates[i], lr, static_cast<int64_t>(i));
    }
  }
  EXPECT_EQ(tables, 10);
}

TEST(LrSchedule, ConvertsEveryUnitToSteps) {
  // An epoch has nine steps of 8 samples and one of 4.
  EXPECT_EQ(to_steps({7, Unit::kSteps}, kScale), 7);
  EXPECT_EQ(to_steps({3, Unit::kEpochs}, kScale), 30);
  EXPECT_EQ(to_steps({5, Unit::kEpochs, 10}, kScale), 5);
  EXPECT_EQ(to_steps({1, Unit::kEpochs, 1000}, kScale), 1);
  EXPECT_EQ(to_steps({10, Unit::kRuns, 100}, kScale), kScale.total_steps / 10);
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max(), kHuge = int64_t{1} << 62;
  const RunLength extreme{
      .total_steps = kHuge, .steps_per_epoch = {kHuge, 4}, .samples_per_epoch = kHuge, .samples_per_step = kMost};
  EXPECT_EQ(to_steps({50, Unit::kRuns, 100}, extreme), kHuge / 2);
  EXPECT_EQ(to_steps({4, Unit::kEpochs}, extreme), kHuge);
  EXPECT_EQ(to_steps({1000, Unit::kEpochs}, extreme), kMost);
  EXPECT_EQ(to_steps({1000, Unit::kSamples}, extreme), 1);
  EXPECT_EQ(to_steps({0, Unit::kSamples}, kScale), 0);
  EXPECT_EQ(to_steps({1, Unit::kSamples}, kScale), 1);
  EXPECT_EQ(to_steps({8, Unit::kSamples}, kScale), 1);
  EXPECT_EQ(to_steps({9, Unit::kSamples}, kScale), 2);
  EXPECT_EQ(to_steps({73, Unit::kSamples}, kScale), 10);
  EXPECT_EQ(to_steps({76, Unit::kSamples}, kScale), 10);
  EXPECT_EQ(to_steps({77, Unit::kSamples}, kScale), 11);
  EXPECT_EQ(to_steps({760, Unit::kSamples}, kScale), 100);
}

TEST(LrSchedule, SamplesEndAtTheStepThatHasSeenThem) {
  // Brute force: counts samples step by step, including short last steps.
  int64_t seen = 0;
  for (int64_t step = 1; step <= 30; ++step) {
    const int64_t before = seen;
    seen += step % kScale.steps_per_epoch.steps == 0 ? 4 : 8;
    for (int64_t n = before + 1; n <= seen; ++n) EXPECT_EQ(to_steps({n, Unit::kSamples}, kScale), step) << n;
  }
}

TEST(LrSchedule, LengthsIfStepsCrossTheEndOfAnEpoch) {
  // Epochs of batches with 8, 8, 8, 8 and 4 samples, and steps of 3 batches.
  const RunLength scale{.total_steps = 50, .steps_per_epoch = {5, 3}, .samples_per_epoch = 36, .samples_per_step = 24};
  int64_t seen = 0, batches = 0;
  for (int64_t step = 1; step <= 30; ++step) {
    const int64_t before = seen, epochs_before = batches / 5;
    for (int i = 0; i < 3; ++i) seen += ++batches % 5 == 0 ? 4 : 8;
    for (int64_t n = before + 1; n <= seen; ++n) EXPECT_EQ(to_steps({n, Unit::kSamples}, scale), step) << n;
    for (int64_t n = epochs_before + 1; n <= batches / 5; ++n)
      EXPECT_EQ(to_steps({n, Unit::kEpochs}, scale), step) << n;
  }
}

TEST(LrSchedule, EpochsAndSamplesDoNotDependOnRanksOrAccumulation) {
  SchedulerSpec spec;
  spec.type = SchedulerType::kCosine;
  const RunLength one{.total_steps = 240, .steps_per_epoch = 80, .samples_per_epoch = 640, .samples_per_step = 8};
  const RunLength eight{
      .total_steps = 30, .steps_per_epoch = 10, .samples_per_epoch = 640, .samples_per_step = 64, .num_processes = 8};
  for (const Length warmup : {Length{1, Unit::kEpochs}, Length{320, Unit::kSamples}}) {
    spec.warmup = warmup;
    const LrSchedule a(spec, 0.1, one), b(spec, 0.1, eight);
    for (int64_t step = 0; step < 30; ++step) EXPECT_NEAR(a.factor(8 * step), b.factor(step), 1e-15) << step;
  }
}

TEST(LrSchedule, LengthDefaultsToTheWholeRun) {
  SchedulerSpec spec;
  spec.type = SchedulerType::kLinear;
  const LrSchedule schedule(spec, 0.1, kScale);
  EXPECT_EQ(schedule.factor(0), 1.0);
  EXPECT_EQ(schedule.factor(50), 0.5);
  EXPECT_EQ(schedule.factor(100), 0.0);
  EXPECT_FALSE(schedule.momentum(0));
}

TEST(LrSchedule, StepsAndExponentialsDecayOncePerInterval) {
  SchedulerSpec spec;
  spec.type = SchedulerType::kExponential;
  spec.gamma = 0.5;
  const LrSchedule by_epoch(spec, 0.1, kScale);  // the default is once per epoch
  EXPECT_EQ(by_epoch.factor(9), 1.0);
  EXPECT_EQ(by_epoch.factor(10), 0.5);
  spec.type = SchedulerType::kStep;
  spec.every = Length{3, Unit::kEpochs};
  spec.warmup = Length{5, Unit::kSteps};
  const LrSchedule step(spec, 0.1, kScale);
  EXPECT_EQ(step.factor(4), 0.8);
  EXPECT_EQ(step.factor(34), 1.0);
  EXPECT_EQ(step.factor(35), 0.5);
}

TEST(LrSchedule, PolynomialIsAtItsEndAfterAWarmupOfTheWholeLength) {  // transformers divides by zero here
  SchedulerSpec spec;
  spec.type = SchedulerType::kPolynomial;
  spec.end = 0.025;
  spec.warmup = spec.length = Length{10, Unit::kSteps};
  const LrSchedule schedule(spec, 0.1, kScale);
  EXPECT_EQ(schedule.factor(9), 0.9);
  EXPECT_EQ(schedule.factor(10), 0.25);
}

TEST(LrSchedule, HoldsOrRestartsBeyondItsLength) {
  for (const SchedulerType type : {SchedulerType::kLinear, SchedulerType::kCosine, SchedulerType::kCosineRestarts,
                                   SchedulerType::kPolynomial, SchedulerType::kOneCycle}) {
    SchedulerSpec spec;
    spec.type = type;
    spec.max_lr = 0.1;
    spec.end = 0;
    spec.cycles = type == SchedulerType::kCosine ? 0.5 : 1;
    if (type != SchedulerType::kOneCycle) spec.warmup = Length{2, Unit::kSteps};
    spec.length = Length{8, Unit::kSteps};
    const LrSchedule formula(spec, 0.1, kScale);
    spec.beyond = schema::Beyond::kHold;
    const LrSchedule hold(spec, 0.1, kScale);
    spec.beyond = schema::Beyond::kRestart;
    const LrSchedule restart(spec, 0.1, kScale);
    for (int64_t step = 0; step < 30; ++step) {
      EXPECT_EQ(hold.factor(step), formula.factor(std::min<int64_t>(step, 7))) << step;
      EXPECT_EQ(restart.factor(step), formula.factor(step % 8)) << step;
      EXPECT_EQ(restart.momentum(step), formula.momentum(step % 8)) << step;
    }
    const bool ends_at_zero = type != SchedulerType::kCosine && type != SchedulerType::kOneCycle;
    EXPECT_EQ(formula.updates_at_zero(30), ends_at_zero ? 22 : 0);
    EXPECT_EQ(formula.updates_at_zero(8), 0);
    EXPECT_EQ(hold.updates_at_zero(30), 0);
    EXPECT_EQ(restart.updates_at_zero(30), 0);
    EXPECT_EQ(formula.updates_after_rise(30), type == SchedulerType::kCosine ? 22 : 0);
    EXPECT_EQ(formula.updates_after_rise(8), 0);
    EXPECT_EQ(hold.updates_after_rise(30), 0);
    EXPECT_EQ(restart.updates_after_rise(30), 0);
  }
}

TEST(LrSchedule, OneCycleStaysAtItsEnd) {
  SchedulerSpec spec;
  spec.type = SchedulerType::kOneCycle;
  spec.max_lr = 0.1;
  const LrSchedule schedule(spec, 0.1, kScale);
  EXPECT_NEAR(schedule.factor(99), 1 / 25.0 / 1e4, 1e-18);
  EXPECT_EQ(schedule.factor(1000), schedule.factor(99));
  EXPECT_EQ(schedule.momentum(1000), schedule.momentum(99));
}

TEST(LrSchedule, OneCycleHandlesEmptyPhases) {
  SchedulerSpec spec;
  spec.type = SchedulerType::kOneCycle;
  spec.max_lr = 0.1;
  // torch divides by zero at 0.01 × 100 steps, and past the end of 1.0.
  for (const double pct_start : {0.0, 0.01, 1.0}) {
    spec.pct_start = pct_start;
    for (const bool compat : {false, true}) {
      if (compat) spec.compat = schema::Compat::kAccelerate;
      const LrSchedule schedule(spec, 0.1, kScale);
      for (int64_t step = 0; step < 110; ++step) EXPECT_TRUE(std::isfinite(schedule.factor(step))) << pct_start;
    }
  }
}

TEST(LrSchedule, PlateauContinuesFromACheckpoint) {
  SchedulerSpec spec;
  spec.type = SchedulerType::kPlateau;
  spec.patience = 1;
  spec.cooldown = 2;
  spec.warmup = Length{4, Unit::kSteps};
  const std::vector<double> metrics = {1.0, 1.1, 1.2, 1.3, 1.0, 0.9, 1.0, 1.0, 1.0, 0.8, 1.0, 1.0};
  for (size_t cut = 0; cut < metrics.size(); ++cut) {
    LrSchedule whole(spec, 0.1, kScale), first(spec, 0.1, kScale), second(spec, 0.1, kScale);
    for (size_t i = 0; i < metrics.size(); ++i) {
      whole.observe(metrics[i], false);
      if (i == cut) second.restore(first.plateau());
      (i < cut ? first : second).observe(metrics[i], false);
    }
    EXPECT_EQ(second.plateau(), whole.plateau()) << cut;
    EXPECT_EQ(second.factor(2), 0.5 * whole.plateau().factor);  // warm-up and plateau multiply
    EXPECT_LT(second.factor(10), 1.0);
  }
}

TEST(LrSchedule, OnlyPlateauObserves) {
  LrSchedule schedule(SchedulerSpec{}, 0.1, kScale);
  for (int i = 0; i < 50; ++i) EXPECT_FALSE(schedule.observe(1.0, false));
  EXPECT_EQ(schedule.plateau(), PlateauState{});
  EXPECT_EQ(schedule.factor(3), 1.0);
}

std::string error_of(const SchedulerSpec& spec, double lr) {
  try {
    LrSchedule(spec, lr, kScale);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kRecipe);
    return error.message();
  }
  return "";
}

TEST(LrSchedule, RejectsSchedulesThatNoFactorCanExpress) {
  SchedulerSpec spec;
  spec.type = SchedulerType::kOneCycle;
  spec.max_lr = 0.5;
  EXPECT_EQ(error_of(spec, 0.0), "scheduler.max_lr scales optimizer.lr, expected optimizer.lr above 0, got 0");
  spec = {};
  spec.type = SchedulerType::kPolynomial;
  EXPECT_EQ(error_of(spec, 1e-7),
            "scheduler.end: expected a value below optimizer.lr, 1e-07, from which polynomial decays, got 1e-07");
}

}  // namespace
}  // namespace runner::optim
