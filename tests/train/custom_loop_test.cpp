// Training loops of hooks: optimizer steps, mark_step, update counts, skipped updates, and their checkpoints.
#include "runner/train/loop/custom_loop.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/ir/ops.h"
#include "store/state_store.h"
#include "tests/support/bytes.h"
#include "tests/support/json.h"
#include "tests/train/run_fixture.h"
#include "tests/train/test_hooks.h"

namespace runner::train {
namespace {

namespace ops = backends::ops;
using support::Json;

// Five batches per epoch, two per optimizer step, so the third optimizer step is short.
constexpr const char* kLoop = R"(schema_version: 1
seed: 5
gradient_accumulation_steps: 2
model: {type: linear}
data: {train: {format: synthetic, samples: 40, features: [4], classes: 3}, batch_size: 8}
optimizer: {type: sgd, lr: 0.5}
train: {epochs: 2}
checkpoint: {every: 1 step}
log: {every: 1 step}
)";
constexpr int64_t kOptimizerSteps = 6;

Value loss_of(CustomLoop& loop) {
  const StepInputs& inputs = loop.inputs();
  const Value outputs = inputs.model->forward(inputs.forward, inputs.features);
  const Value squares = ops::mul(outputs, outputs);
  return ops::mean(squares, std::vector<int64_t>{0, 1});
}

// Calls `body` for each remaining batch.
void each_batch(CustomLoop& loop, const std::function<void()>& body) {
  const CustomLoop::Epochs epochs = loop.begin_epochs(std::nullopt);
  while (loop.next_epoch(epochs)) {
    loop.begin_batches(Split::kTrain);
    while (loop.next_batch(Split::kTrain)) body();
  }
}

class CustomLoopTest : public RunFixture {
 protected:
  // Trains with `body` for each batch.
  RunResult loop(const std::function<void(CustomLoop&, HookRun&)>& body, Options options = {},
                 const std::function<Optimizers()>& optimizers = nullptr) {
    options.make_hooks =
        hooks_with({.train = [body](CustomLoop& loop, HookRun& run) { each_batch(loop, [&] { body(loop, run); }); },
                    .optimizers = optimizers});
    return train(kLoop, options);
  }

  // Sections of parameters and slots only.
  static std::map<std::string, std::vector<std::byte>> tensors(std::map<std::string, std::vector<std::byte>> state) {
    std::erase_if(state, [](const auto& section) { return section.first == "run" || section.first == "sums"; });
    return state;
  }
};

void plain(CustomLoop& loop, HookRun&) {
  loop.backward(loss_of(loop));
  loop.step(0);
  loop.step_schedule();
  loop.zero_grad(0);
}

TEST_F(CustomLoopTest, MarkStepDoesNotChangeResults) {
  ASSERT_EQ(loop(plain, {.store = "whole.db"}).exit_code, 0);
  const auto cut = [](CustomLoop& loop, HookRun&) {
    loop.mark_step();
    loop.backward(loss_of(loop));
    loop.mark_step();
    loop.step(0);
    loop.mark_step();
    loop.step_schedule();
    loop.zero_grad(0);
    loop.mark_step();
  };
  ASSERT_EQ(loop(cut, {.store = "cut.db"}).exit_code, 0);
  EXPECT_EQ(tensors(last_state("cut.db")), tensors(last_state("whole.db")));
  EXPECT_EQ(last_document("cut.db"), last_document("whole.db"));
  EXPECT_EQ(points("train/loss", "cut.db"), points("train/loss", "whole.db"));
  EXPECT_EQ(points("train/loss", "cut.db").size(), static_cast<size_t>(kOptimizerSteps));
}

// A hook may catch errors. A failed call must not count updates or samples.
TEST_F(CustomLoopTest, CaughtErrorsDoNotChangeResults) {
  const Options adam{.store = "whole.db", .overrides = {"optimizer={type: adam, lr: 0.1}"}};
  ASSERT_EQ(loop(plain, adam).exit_code, 0);
  Options erring = adam;
  erring.store = "erring.db";
  int batches = 0, caught = 0;
  const auto attempt = [&](const std::function<void()>& call) {
    try {
      call();
    } catch (const Error&) {
      ++caught;
    }
  };
  const auto body = [&](CustomLoop& loop, HookRun& run) {
    const Value constant = ops::full_like(loop.inputs().features, 1.0);  // depends on no parameter
    attempt([&] { loop.backward(ops::mean(constant, std::vector<int64_t>{0, 1})); });
    if (++batches % 5 == 0) attempt([&] { loop.step(0); });  // an optimizer step of one batch without a gradient so far
    plain(loop, run);
  };
  ASSERT_EQ(loop(body, erring).exit_code, 0);
  EXPECT_EQ(caught, 10 + 2);
  EXPECT_EQ(tensors(last_state("erring.db")), tensors(last_state("whole.db")));
  EXPECT_EQ(points("train/loss", "erring.db"), points("train/loss", "whole.db"));
}

// A short optimizer step is like any other: its gradient is the mean over its samples.
TEST_F(CustomLoopTest, OptimizerStepsAreShortAtTheEndOfAnEpoch) {
  std::vector<bool> last;
  std::vector<double> losses;
  const auto body = [&](CustomLoop& loop, HookRun& run) {
    last.push_back(loop.sync_gradients());
    losses.push_back(loop.inputs().read(loss_of(loop)).front());
    plain(loop, run);
  };
  ASSERT_EQ(loop(body, {.overrides = {"train.epochs=1", "optimizer.lr=0"}}).exit_code, 0);
  EXPECT_EQ(last, (std::vector<bool>{false, true, false, true, true}));
  const auto recorded = points("train/loss");
  ASSERT_EQ(recorded.size(), 3u);
  EXPECT_NEAR(recorded[0].second, (losses[0] + losses[1]) / 2, 1e-6);
  EXPECT_NEAR(recorded[2].second, losses[4], 1e-6);
}

// The derivative of the mean output by a bias is 1/3 for any batch, so each optimizer step moves it equally.
TEST_F(CustomLoopTest, AShortOptimizerStepCountsAsMuchAsALongOne) {
  const auto mean_output = [](CustomLoop& loop, std::vector<int64_t> axes) {
    const StepInputs& inputs = loop.inputs();
    return ops::mean(inputs.model->forward(inputs.forward, inputs.features), axes);
  };
  ASSERT_EQ(loop(plain, {.store = "still.db", .overrides = {"optimizer.lr=0"}}).exit_code, 0);
  const auto before = support::numbers_of<float>(last_state("still.db").at("model/0.bias"));
  for (const bool by_sample : {false, true}) {
    SCOPED_TRACE(by_sample);
    const std::string store = by_sample ? "sample.db" : "batch.db";
    const auto body = [&](CustomLoop& loop, HookRun&) {
      loop.backward(mean_output(loop, by_sample ? std::vector<int64_t>{1} : std::vector<int64_t>{0, 1}));
      loop.step(0);
      loop.zero_grad(0);
    };
    ASSERT_EQ(loop(body, {.store = store}).exit_code, 0);
    const auto after = support::numbers_of<float>(last_state(store).at("model/0.bias"));
    for (size_t i = 0; i < before.size(); ++i)
      EXPECT_NEAR(after[i], before[i] - kOptimizerSteps * 0.5f / 3, 1e-5) << "output " << i;
  }
}

Optimizers two_optimizers() {
  Optimizers two{.names = {"a", "b"}, .groups = {}};
  optim::Rule adam{.type = schema::OptimizerType::kAdam, .hyper = {}};
  adam.hyper.lr = 0.05;
  optim::Rule sgd{.type = schema::OptimizerType::kSgd, .hyper = {}};
  sgd.hyper.lr = 0.1;
  sgd.hyper.momentum = 0.9;
  two.groups = {{0, {"0.weight"}, adam}, {1, {"0.bias"}, sgd}};
  return two;
}

// Steps optimizer b in every optimizer step and a in every second one, with the gradients of two.
void alternate(CustomLoop& loop, HookRun& run) {
  loop.backward(loss_of(loop));
  loop.step(1);
  loop.zero_grad(1);
  if (run.step() % 2 == 0) return;
  loop.step(0);
  loop.zero_grad(0);
}

const std::vector<std::string> kTwo = {"optimizer.type=hook", "gradient_accumulation_steps=1"};

TEST_F(CustomLoopTest, EachOptimizerCountsItsOwnUpdates) {
  const auto run_for = [&](const std::string& store, int64_t steps) {
    std::vector<std::string> overrides = kTwo;
    overrides.push_back("train={steps: " + std::to_string(steps) + "}");
    ASSERT_EQ(loop(alternate, {.store = store, .overrides = overrides}, two_optimizers).exit_code, 0);
  };
  run_for("one.db", 1);
  run_for("two.db", 2);
  EXPECT_EQ(last_document("one.db")["updates"], Json::parse(R"({"a": 0, "b": 1})"));
  EXPECT_EQ(last_document("two.db")["updates"], Json::parse(R"({"a": 1, "b": 2})"));
  const auto before = last_state("one.db"), after = last_state("two.db");
  EXPECT_TRUE(before.contains("gradient/0.weight")) << "gradients are kept in the checkpoint";
  EXPECT_FALSE(before.contains("gradient/0.bias"));
  EXPECT_FALSE(after.contains("gradient/0.weight"));
  // The first update of Adam moves each weight by the learning rate, whatever the gradient. No weight has moved before.
  const auto a = support::numbers_of<float>(before.at("model/0.weight")),
             b = support::numbers_of<float>(after.at("model/0.weight"));
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(std::fabs(b[i] - a[i]), 0.05, 1e-4) << i;
}

TEST_F(CustomLoopTest, ResumesAfterAnInterruptAtAnyStep) {
  const RunResult whole = loop(alternate, {.store = "whole.db", .overrides = kTwo}, two_optimizers);
  ASSERT_EQ(whole.exit_code, 0);
  ASSERT_EQ(whole.optimizer_steps, 10);
  for (int64_t stop = 1; stop < whole.optimizer_steps; ++stop) {
    SCOPED_TRACE(stop);
    const std::string store = fmt::format("parts{}.db", stop);
    EXPECT_EQ(loop(alternate, {.store = store, .overrides = kTwo, .stop_after = stop}, two_optimizers).exit_code, 4);
    EXPECT_EQ(loop(alternate, {.store = store, .resume = "@last", .overrides = kTwo}, two_optimizers).exit_code, 0);
    EXPECT_EQ(last_state(store), last_state("whole.db"));
    for (const char* metric : {"train/loss", "train/lr", kBatchDigest})
      EXPECT_EQ(points(metric, store), points(metric, "whole.db")) << metric;
  }
}

// A fork restores update counts by optimizer name; unknown names start at 0.
TEST_F(CustomLoopTest, AForkKeepsUpdateCountsOfKnownOptimizers) {
  std::string recipe = kLoop;
  recipe.replace(recipe.find("type: sgd"), 9, "type: hook");
  recipe.erase(recipe.find("gradient_accumulation_steps: 2"), 31);
  const auto with = [](const char* epochs, const std::function<Optimizers()>& optimizers) {
    Options options;
    options.overrides = {epochs};
    options.make_hooks =
        hooks_with({.train = [](CustomLoop& loop, HookRun& run) { each_batch(loop, [&] { alternate(loop, run); }); },
                    .optimizers = optimizers});
    return options;
  };
  const RunResult parent = train(recipe, with("train.epochs=2", two_optimizers));
  ASSERT_EQ(parent.exit_code, 0);
  EXPECT_EQ(last_document()["updates"], Json::parse(R"({"a": 5, "b": 10})"));
  Options again = with("train.epochs=3", two_optimizers);
  again.fork = parent.run;
  EXPECT_EQ(train(recipe, again).warnings, parent.warnings);
  EXPECT_EQ(last_document()["updates"], Json::parse(R"({"a": 7, "b": 15})"));
  Options renamed = with("train.epochs=3", [] {
    Optimizers optimizers = two_optimizers();
    optimizers.names = {"c", "d"};
    return optimizers;
  });
  renamed.fork = parent.run;
  EXPECT_EQ(train(recipe, renamed).warnings,
            (std::vector<std::string>{
                fmt::format("the optimizer starts from scratch: state {} has no optimizer c", parent.states.back())}));
  EXPECT_EQ(last_document()["updates"], Json::parse(R"({"c": 2, "d": 5})"));
}

// save() within an optimizer step takes effect at its end, when the state is complete.
TEST_F(CustomLoopTest, SavingWithinAnOptimizerStepSavesItsEnd) {
  int batches = 0;
  const auto body = [&](CustomLoop& loop, HookRun&) {
    loop.backward(loss_of(loop));
    if (batches++ == 2) loop.save();  // first batch of the second optimizer step
    loop.step(0);
  };
  ASSERT_EQ(loop(body, {.overrides = {"checkpoint.every=null"}}).exit_code, 0);
  store::Store store = store::Store::open(path("runner.db"), store::Access::kRead);
  const auto states = store::list_states(store, store::find_run(store, "@last").id);
  ASSERT_EQ(states.size(), 2u) << "another checkpoint is saved at the end";
  EXPECT_EQ(states[1].step, 2);
  EXPECT_EQ(states[1].reason, "hook");
  std::map<std::string, std::vector<std::byte>> state;
  for (const store::Section& section : store::load_state(store, states[1].id).sections)
    state[section.name] = section.bytes;
  const Json document = Json::parse(support::text_of(state.at("run")));
  EXPECT_EQ(document["batch"].integer(), 4);
  EXPECT_EQ(document["samples"].integer(), 32);
  // Nothing has zeroed the gradients, so they are the sum of four batches.
  EXPECT_TRUE(state.contains("gradient/0.weight"));
  EXPECT_TRUE(state.contains("gradient/0.bias"));
}

// Makes a loss not finite after `bad` optimizer steps. `cut`: adds mark_step between related calls.
std::function<void(CustomLoop&, HookRun&)> skipping(int64_t bad, bool cut) {
  return [bad, cut](CustomLoop& loop, HookRun& run) {
    const Value loss = loss_of(loop);
    loop.backward(run.step() == bad ? ops::div(loss, 0.0) : loss);
    loop.step(0);
    if (cut) loop.mark_step();
    loop.step_schedule();
    loop.log("skipped", loop.step_was_skipped() ? 1 : 0);
    loop.log("rate", loop.rate(0));
    loop.zero_grad(0);
  };
}

TEST_F(CustomLoopTest, ASkippedUpdateIsNotCounted) {
  const std::vector<std::string> overrides = {"train.on_nan=skip", "gradient_accumulation_steps=1",
                                              "train={steps: 4, on_nan: skip}", "scheduler={type: linear}"};
  for (const bool cut : {false, true}) {
    SCOPED_TRACE(cut);
    const std::string store = cut ? "cut.db" : "whole.db";
    const RunResult result = loop(skipping(1, cut), {.store = store, .overrides = overrides});
    ASSERT_EQ(result.exit_code, 0);
    EXPECT_EQ(result.skipped_steps, 1);
    const Json state = last_document(store);
    EXPECT_EQ(state["windows"].integer(), 4);
    EXPECT_EQ(state["applied"].integer(), 3);
    EXPECT_EQ(state["scheduled"].integer(), 3);
    EXPECT_EQ(state["updates"][""].integer(), 3);
    EXPECT_FALSE(state["update_was_skipped"].flag());
    const auto values = [&](const char* metric) {
      std::vector<double> found;
      for (const auto& [step, value] : points(metric, store)) found.push_back(value);
      return found;
    };
    EXPECT_EQ(values("skipped"), (std::vector<double>{0, 1, 0, 0}));
    EXPECT_EQ(values("train/lr"), (std::vector<double>{0.5, 0.375, 0.375, 0.25}));
    EXPECT_EQ(values("rate"), (std::vector<double>{0.375, 0.375, 0.25, 0.125}));
  }
}

TEST_F(CustomLoopTest, AResumedRunKnowsThatTheLastUpdateWasSkipped) {
  const std::vector<std::string> overrides = {"gradient_accumulation_steps=1", "train={steps: 4, on_nan: skip}"};
  ASSERT_EQ(loop(skipping(1, false), {.overrides = overrides, .stop_after = 2}).exit_code, 4);
  EXPECT_TRUE(last_document()["update_was_skipped"].flag());
  std::vector<bool> skipped;
  const auto body = [&](CustomLoop& loop, HookRun& run) {
    skipped.push_back(loop.step_was_skipped());
    plain(loop, run);
  };
  ASSERT_EQ(loop(body, {.resume = "@last", .overrides = overrides}).exit_code, 0);
  EXPECT_EQ(skipped, (std::vector<bool>{true, false}));
}

TEST_F(CustomLoopTest, LoadRestoresWeightsAndKeepsCounts) {
  std::map<int64_t, std::vector<float>> weights;  // by number of optimizer steps before
  const auto body = [&](CustomLoop& loop, HookRun& run) {
    if (run.step() == 5 && !weights.contains(50)) {
      loop.backward(loss_of(loop));  // dropped by load()
      loop.load("");
      const std::vector<double> now = loop.inputs().read(ops::flatten(loop.inputs().forward.parameters[0]));
      weights[50] = {now.begin(), now.end()};
    }
    const std::vector<double> now = loop.inputs().read(ops::flatten(loop.inputs().forward.parameters[0]));
    weights.try_emplace(run.step(), now.begin(), now.end());
    if (run.step() == 2) loop.save();  // after three optimizer steps
    plain(loop, run);
  };
  const RunResult result =
      loop(body, {.overrides = {"gradient_accumulation_steps=1", "checkpoint.every=null", "log.every=4 steps",
                                "scheduler={type: linear}", "train={steps: 8}"}});
  ASSERT_EQ(result.exit_code, 0);
  EXPECT_EQ(weights.at(50), weights.at(3));
  EXPECT_NE(weights.at(4), weights.at(3));
  const Json state = last_document();
  EXPECT_EQ(state["windows"].integer(), 8);
  EXPECT_EQ(state["samples"].integer(), 64);
  EXPECT_EQ(state["scheduled"].integer(), 6) << "three before the checkpoint, three after";
  EXPECT_EQ(state["updates"][""].integer(), 6);
}

// ---- other hooks ----------------------------------------------------------------------------------------------------

class Doubling : public data::Transform {
 public:
  void apply(const data::Sample& sample) override {
    for (float& feature : sample.features) feature *= 2;
  }
};

TEST_F(CustomLoopTest, ATransformDoesNotChangeTheFingerprint) {
  const std::vector<std::string> overrides = {"gradient_accumulation_steps=1"};
  const auto doubled = hooks_with({.transform = [] { return std::make_shared<Doubling>(); }});
  ASSERT_EQ(train(kLoop, {.store = "plain.db", .overrides = overrides}).exit_code, 0);
  ASSERT_EQ(train(kLoop, {.store = "doubled.db", .overrides = overrides, .make_hooks = doubled}).exit_code, 0);
  EXPECT_NE(tensors(last_state("doubled.db")), tensors(last_state("plain.db")));
  EXPECT_EQ(last_document("doubled.db")["train_data"], last_document("plain.db")["train_data"]);
  // Therefore a run may continue with another transform.
  ASSERT_EQ(train(kLoop, {.overrides = overrides, .stop_after = 3, .make_hooks = doubled}).exit_code, 4);
  EXPECT_EQ(train(kLoop, {.resume = "@last", .overrides = overrides}).exit_code, 0);
}

}  // namespace
}  // namespace runner::train
