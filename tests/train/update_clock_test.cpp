// Device-side counters, against plain loops that count on the host.
#include "runner/train/engine/update_clock.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/exec/cpu_device.h"
#include "backends/ir/ops.h"
#include "runner/train/loop/custom_loop.h"
#include "runner/train/loop/session.h"
#include "runner/train/run/checkpoint/sections.h"
#include "schema/recipe/recipe_reader.h"
#include "tests/backends/support/on_threads.h"
#include "tests/support/bytes.h"
#include "tests/support/json.h"
#include "tests/train/recording_device.h"
#include "tests/train/run_fixture.h"
#include "tests/train/test_hooks.h"

namespace runner::train {
namespace {

namespace ops = backends::ops;
using backends::testing::on_threads;
using support::Json;

// ---- scalars -------------------------------------------------------------------------------------------------------

optim::Rule rule_of(schema::OptimizerType type) {
  optim::Rule rule{.type = type, .hyper = {}};
  rule.hyper.lr = 0.03;
  rule.hyper.weight_decay = 0.1;
  rule.hyper.momentum = 0.85;
  rule.hyper.dampening = 0.3;
  rule.hyper.lr_decay = 0.01;
  return rule;
}

std::vector<optim::Rule> all_rules() {
  using schema::OptimizerType;
  std::vector<optim::Rule> rules;
  for (const OptimizerType type :
       {OptimizerType::kSgd, OptimizerType::kAdam, OptimizerType::kAdamw, OptimizerType::kRmsprop,
        OptimizerType::kAdagrad, OptimizerType::kLion, OptimizerType::kHook})
    rules.push_back(rule_of(type));
  for (const optim::WeightAverage& average :
       {optim::WeightAverage{.decay = 0.9}, optim::WeightAverage{.decay = std::nullopt, .start = 3, .every = 7}}) {
    rules.push_back(rule_of(OptimizerType::kSgd));
    rules.back().average = average;
  }
  return rules;
}

// Recorded scalars are bit-identical to those that the host computes.
TEST(RecordedScalars, MatchTheHost) {
  const auto device = backends::make_cpu_device(1);
  for (const optim::Rule& rule : all_rules()) {
    const size_t count = optim::scalar_count(rule);
    backends::Program program;
    std::vector<Value> inputs;
    for (const char* name : {"lr", "momentum", "number"})
      inputs.push_back({&program, program.input(backends::InputKind::kBatch, name, {backends::DType::kF64, {}})});
    for (const Value scalar : optim::record_scalars(rule, {inputs[0], inputs[1]}, inputs[2]))
      program.output("scalar", scalar.id);
    const auto step = device->compile(program);
    for (const int64_t number : {1, 2, 3, 4, 10, 17, 1000, 2'000'000}) {
      const optim::StepRates rates{.lr = 0.03 / static_cast<double>(number), .momentum = 0.9};
      std::vector<double> expected(count);
      optim::step_scalars(rule, rates, number, expected);
      const auto as_double = static_cast<double>(number);
      const auto bytes = [](const double& value) { return reinterpret_cast<const std::byte*>(&value); };
      const std::byte* batch[] = {bytes(rates.lr), bytes(rates.momentum), bytes(as_double)};
      device->submit(*step, {.states = {}, .batch = batch, .scalars = {}});
      for (size_t i = 0; i < count; ++i) {
        double got = 0;
        device->read_output(*step, static_cast<int>(i), std::as_writable_bytes(std::span(&got, 1)));
        EXPECT_EQ(got, expected[i]) << optim::scalar_names(rule)[i] << " of update " << number;
      }
    }
  }
}

// ---- optimizer steps of the declared loop ---------------------------------------------------------------------------

// Overflows at first, and whenever the scale has grown too far.
constexpr const char* kOverflowing = R"(schema_version: 1
seed: 5
mixed_precision: fp16
scaler: {init_scale: 16777216, growth_interval: 4}
model: {type: mlp, hidden: [12]}
data: {train: {format: synthetic, samples: 240, features: [6], classes: 4}, batch_size: 6}
optimizer: {type: adamw, lr: 0.02, groups: [{params: ["*.bias"], lr: 0.01, weight_decay: 0}]}
scheduler: {type: one_cycle, max_lr: 0.05}
train: {epochs: 4, clip_grad_norm: 0.5}
threads: 1
)";

class UpdateClockTest : public RunFixture {
 protected:
  struct Trained {
    std::map<std::string, Bytes> state;
    Counters counters;
    std::vector<double> rates;
    int64_t skipped = 0;
  };

  schema::ReadResult recipe(const std::vector<std::string>& overrides = {}) const {
    write("recipe.yaml", kOverflowing);
    return schema::read_recipe(path("recipe.yaml").string(), overrides);
  }

  // The host reads the counters after every `every`-th optimizer step; 0: only at the end.
  static Trained train_learning(const schema::Recipe& recipe, int64_t every, backends::ProcessGroup* ranks = nullptr) {
    Session session(recipe, nullptr, ranks);
    session.trainer.allocate();
    session.trainer.step_memory().prepare({.batch = session.plan.slice(session.rank(), 0).size()});
    data::Loader loader(session.data.train, session.plan,
                        {.seed = session.data_seed(), .rank = session.rank(), .prefetch = 0});
    Trained result;
    for (int64_t step = 1; step <= session.length.total_steps; ++step) {
      StepResult step_result = session.trainer.stepper().run(loader, session.rates());
      if (every == 0 || step % every != 0) continue;
      session.trainer.stepper().read_counters(step_result);
      EXPECT_EQ(session.trainer.stepper().pending(), 0);
      result.rates.push_back(step_result.lr);
      result.skipped += !step_result.applied;
    }
    session.trainer.stepper().read_counters();
    result.counters = session.trainer.counters;
    store::StateSnapshot snapshot;
    Checkpoint state;
    state.counters = result.counters;
    state.encoding = session.data.encoding;
    capture(session.trainer, state, snapshot);
    for (const store::SectionView& section : snapshot.sections())
      result.state[std::string(section.name)] = {section.bytes.begin(), section.bytes.end()};
    return result;
  }
};

// More optimizer steps than the table of rates has rows.
TEST_F(UpdateClockTest, ReadingCountersDoesNotChangeResults) {
  const schema::ReadResult read = recipe();
  const Trained always = train_learning(read.recipe, 1);
  ASSERT_GT(std::ssize(always.rates), 2 * kClockRows);
  ASSERT_GT(always.skipped, 10);
  EXPECT_EQ(always.counters.applied, std::ssize(always.rates) - always.skipped);
  EXPECT_EQ(always.counters.scheduled, always.counters.applied);
  EXPECT_EQ(always.counters.updates.at(""), always.counters.applied);
  for (const int64_t every : {0, 7}) {
    SCOPED_TRACE(every);
    const Trained late = train_learning(read.recipe, every);
    EXPECT_EQ(late.counters, always.counters);
    EXPECT_EQ(late.state, always.state);
    for (size_t i = 0; i < late.rates.size(); ++i)
      EXPECT_EQ(late.rates[i], always.rates[(i + 1) * static_cast<size_t>(every) - 1]);
  }
}

// Each rank counts for itself, and all agree.
TEST_F(UpdateClockTest, RanksCountAlike) {
  const schema::ReadResult read = recipe({"num_processes=2"});
  for (const int64_t every : {1, 0}) {
    std::vector<Trained> results(2);
    on_threads(2, [&](backends::SharedMemoryGroup& ranks) {
      results[static_cast<size_t>(ranks.rank())] = train_learning(read.recipe, every, &ranks);
    });
    EXPECT_LT(results[0].counters.applied, results[0].counters.steps);
    EXPECT_EQ(results[0].counters.applied, results[1].counters.applied);
    EXPECT_EQ(results[0].state.at("model/0.weight"), results[1].state.at("model/0.weight"));
  }
}

// Between two optimizer steps the host writes only what it knows without reading: rates.
TEST_F(UpdateClockTest, AnOptimizerStepDoesNotWaitForCounters) {
  const schema::ReadResult read = recipe();
  const data::Data data = data::load(read.recipe);
  const data::DataPlan plan(data::train_plan(read.recipe, data.train.size()));
  const optim::LrSchedule schedule(read.recipe.scheduler, 0.02, run_length(read.recipe, plan));
  const auto device = std::make_shared<RecordingDevice>(backends::make_cpu_device(1));
  backends::ModelledDevice modelled(device);
  Trainer trainer(read.recipe, data.encoding, modelled);
  data::Loader loader(data.train, plan, {.seed = 5, .prefetch = 0});
  trainer.allocate();
  trainer.step_memory().prepare({.batch = 6});
  for (int64_t step = 0; step < 20; ++step) {
    const size_t first = device->events().size();
    trainer.stepper().run(loader, {.factor = schedule.factor(step), .momentum = schedule.momentum(step)});
    std::vector<Call> calls;
    for (size_t i = first; i < device->events().size(); ++i) calls.push_back(device->events()[i].call);
    std::vector<Call> expected(step == 0 ? 4 : 2, Call::kWrite);  // counters, factors, momenta
    for (const Call call : {Call::kSubmit, Call::kWait, Call::kReadOutput, Call::kReadOutput})
      expected.push_back(call);  // finite, norm
    EXPECT_EQ(calls, expected) << "step " << step + 1;
  }
  EXPECT_EQ(trainer.counters.applied, 0) << "not read from the device yet";
  trainer.stepper().read_counters();
  EXPECT_GT(trainer.counters.applied, 5);
  EXPECT_LT(trainer.counters.applied, 20);
}

// ---- training loops of hooks ----------------------------------------------------------------------------------------

constexpr const char* kLoopInFp16 = R"(schema_version: 1
seed: 5
mixed_precision: fp16
scaler: {init_scale: 67108864, growth_interval: 1000}
model: {type: linear}
data: {train: {format: synthetic, samples: 48, features: [4], classes: 3}, batch_size: 4}
optimizer: {type: hook}
scheduler: {type: linear, length: 16 steps}
train: {epochs: 1}
checkpoint: {every: 1 step}
log: {every: 1 step}
)";
constexpr int64_t kClockBatches = 12, kScheduled = 16;

Optimizers adam_and_momentum() {
  optim::Rule adam{.type = schema::OptimizerType::kAdam, .hyper = {}};
  adam.hyper.lr = 0.05;
  optim::Rule sgd{.type = schema::OptimizerType::kSgd, .hyper = {}};
  sgd.hyper.lr = 0.1;
  sgd.hyper.momentum = 0.9;
  sgd.hyper.dampening = 0.5;
  return {.names = {"a", "b"}, .groups = {{0, {"0.weight"}, adam}, {1, {"0.bias"}, sgd}}, .lr = 0.05};
}

// Steps of both optimizers within a batch, in this order. Only the gradient overflows.
struct MiniStep {
  int32_t optimizer;
  bool overflows;
  bool schedules;
};

// One step or three. The first of three is sometimes skipped, which the others then see within their traced region.
std::vector<MiniStep> steps_of_batch(int64_t batch) {
  const bool first = batch % 4 == 0, second = batch % 5 == 2;
  if (batch % 3 == 1) return {{1, second, true}};
  return {{0, first, true}, {1, second, false}, {0, false, true}, {1, false, false}};
}

// Derivative of the loss by each element: overflows in f32 after scaling, or differs per batch.
double slope(const MiniStep& step, int64_t batch) {
  return step.overflows ? 1e33 : 0.25 + 0.1 * static_cast<double>(batch);
}

// torch.optim's formulas for one element, since every element has the same gradient.
struct Reference {
  double a = 0, b = 0, exp_avg = 0, exp_avg_sq = 0, momentum = 0;
  int64_t updates[2] = {0, 0};
  int64_t scheduled = 0;

  void step(const MiniStep& mini, double gradient) {
    if (mini.overflows) return;
    const double factor = std::max(0.0, static_cast<double>(kScheduled - scheduled) / kScheduled);
    const auto number = static_cast<double>(++updates[mini.optimizer]);
    if (mini.optimizer == 0) {
      exp_avg += (gradient - exp_avg) * 0.1;
      exp_avg_sq = 0.999 * exp_avg_sq + 0.001 * gradient * gradient;
      const double root = std::sqrt(exp_avg_sq / (1 - std::pow(0.999, number)));
      a -= 0.05 * factor / (1 - std::pow(0.9, number)) * exp_avg / (root + 1e-8);
    } else {
      momentum = number == 1 ? gradient : 0.9 * momentum + 0.5 * gradient;
      b -= 0.1 * factor * momentum;
    }
    scheduled += mini.schedules;
  }
};

void take_steps(CustomLoop& loop, int64_t batch, bool cuts) {
  for (const MiniStep& mini : steps_of_batch(batch)) {
    const Value parameter = loop.inputs().forward.parameters[static_cast<size_t>(mini.optimizer)];
    loop.backward(ops::mul(ops::sum(parameter), slope(mini, batch)));
    if (cuts) loop.mark_step();
    loop.step(mini.optimizer);
    if (cuts) loop.mark_step();
    if (mini.schedules) loop.step_schedule();
    loop.zero_grad(mini.optimizer);
  }
}

class LoopClockTest : public RunFixture {
 protected:
  RunResult run_loop(const std::string& store, bool cuts, int64_t stop_after = 0, const std::string& resume = "") {
    int64_t batch = 0;
    const auto body = [&](CustomLoop& loop, HookRun& run) {
      batch = run.step();
      take_steps(loop, batch, cuts);
    };
    const auto whole = [body](CustomLoop& loop, HookRun& run) {
      const CustomLoop::Epochs epochs = loop.begin_epochs(std::nullopt);
      while (loop.next_epoch(epochs)) {
        loop.begin_batches(Split::kTrain);
        while (loop.next_batch(Split::kTrain)) body(loop, run);
      }
    };
    return train(kLoopInFp16, {.store = store,
                               .resume = resume,
                               .stop_after = stop_after,
                               .make_hooks = hooks_with({.train = whole, .optimizers = adam_and_momentum})});
  }

  float moved(const std::string& store, const std::string& name) const {
    return support::numbers_of<float>(last_state(store).at(name)).at(0);
  }
};

TEST_F(LoopClockTest, ASkippedStepIsNotCounted) {
  ASSERT_EQ(run_loop("one.db", false, 1).exit_code, 4);
  ASSERT_EQ(run_loop("whole.db", false).exit_code, 0);
  Reference first, all;
  for (int64_t batch = 0; batch < kClockBatches; ++batch)
    for (const MiniStep& mini : steps_of_batch(batch)) {
      all.step(mini, slope(mini, batch));
      if (batch == 0) first.step(mini, slope(mini, batch));
    }
  EXPECT_NEAR(moved("whole.db", "model/0.weight") - moved("one.db", "model/0.weight"), all.a - first.a, 2e-6);
  EXPECT_NEAR(moved("whole.db", "model/0.bias") - moved("one.db", "model/0.bias"), all.b - first.b, 2e-6);
  const Json document = last_document("whole.db");
  EXPECT_EQ(document["updates"]["a"].number(), static_cast<double>(all.updates[0]));
  EXPECT_EQ(document["updates"]["b"].number(), static_cast<double>(all.updates[1]));
  EXPECT_EQ(document["scheduled"].number(), static_cast<double>(all.scheduled));
}

// Within a traced region the device decides; after mark_step the host has read the counters. Both give the same bits.
TEST_F(LoopClockTest, MarkStepAndInterruptsDoNotChangeResults) {
  ASSERT_EQ(run_loop("whole.db", false).exit_code, 0);
  ASSERT_EQ(run_loop("cut.db", true).exit_code, 0);
  auto cut = last_state("cut.db"), whole = last_state("whole.db");
  for (const char* section : {"run", "scaler", "model/0.weight", "model/0.bias", "optimizer/0.weight/exp_avg"})
    EXPECT_TRUE(cut.at(section) == whole.at(section)) << section;
  ASSERT_EQ(run_loop("parts.db", false, 5).exit_code, 4);
  ASSERT_EQ(run_loop("parts.db", false, 0, "@last").exit_code, 0);
  EXPECT_TRUE(last_state("parts.db") == whole);
}

}  // namespace
}  // namespace runner::train
