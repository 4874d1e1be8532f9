// Runs of several ranks on emulated GPUs, whose devices run on their host's thread or on their own threads. The bits
// are the same, and a rank that fails ends the run with an error that names it.
#include <optional>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "backends/ir/ops.h"
#include "tests/train/run_fixture.h"
#include "tests/train/test_hooks.h"

namespace runner::train {
namespace {

namespace ops = backends::ops;

constexpr const char* kGpus = R"(schema_version: 1
seed: 5
backend: gpu
num_processes: 3
threads: 1
collective_timeout: 60
model: {type: mlp, hidden: [8]}
data: {train: {format: synthetic, samples: 60, features: [4], classes: 3}, batch_size: 4}
optimizer: {type: adam, lr: 0.1}
train: {epochs: 2}
checkpoint: {every: 1 step}
log: {every: 1 step}
)";

// A hook with a training loop that calls `before` for each batch.
MakeHooks loop_with(const std::function<void(HookRun&)>& before) {
  return hooks_with({.train = [before](CustomLoop& loop, HookRun& run) {
    const CustomLoop::Epochs epochs = loop.begin_epochs(std::nullopt);
    while (loop.next_epoch(epochs)) {
      loop.begin_batches(Split::kTrain);
      while (loop.next_batch(Split::kTrain)) {
        before(run);
        const StepInputs& inputs = loop.inputs();
        const Value outputs = inputs.model->forward(inputs.forward, inputs.features);
        loop.backward(ops::mean(ops::mul(outputs, outputs), std::vector<int64_t>{0, 1}));
        loop.step(0);
        loop.step_schedule();
        loop.zero_grad(0);
      }
    }
  }});
}

class GpuRanks : public RunFixture, public ::testing::WithParamInterface<bool> {
 protected:
  Options options(const std::string& store = "runner.db") const { return {.store = store, .own_thread = GetParam()}; }
  // Returns the error of a run of such a loop.
  std::string error_of(const std::function<void(HookRun&)>& before, std::vector<std::string> overrides = {}) {
    Options erring = options();
    erring.overrides = std::move(overrides);
    erring.make_hooks = loop_with(before);
    const RunResult result = train(kGpus, erring);
    return result.error ? result.error->text : "no error";
  }
  static bool is_at(const HookRun& run, int rank, int64_t step) {
    return run.ranks()->rank() == rank && run.step() == step;
  }
};
INSTANTIATE_TEST_SUITE_P(OwnThread, GpuRanks, ::testing::Bool(),
                         [](const auto& kind) { return kind.param ? "Yes" : "No"; });

// The same bits as without `own_thread`, where the number of cores decides about threads.
TEST_P(GpuRanks, AreBitIdentical) {
  for (const bool own_loop : {false, true}) {
    Options plain{.store = own_loop ? "plain_loop.db" : "plain.db"}, given = options(own_loop ? "loop.db" : "given.db");
    if (own_loop) plain.make_hooks = given.make_hooks = loop_with([](HookRun&) {});
    ASSERT_EQ(train(kGpus, plain).exit_code, 0);
    ASSERT_EQ(train(kGpus, given).exit_code, 0);
    EXPECT_EQ(last_state(given.store), last_state(plain.store));
    EXPECT_EQ(points("train/loss", given.store), points("train/loss", plain.store));
  }
}

TEST_P(GpuRanks, EndIfOneRankFails) {
  const auto fails = [](HookRun& run) { RUN_CHECK(!is_at(run, 1, 3), ErrorKind::kRun, "no more"); };
  EXPECT_EQ(error_of(fails), "rank 1, after 3 steps: no more");
}

TEST_P(GpuRanks, EndIfRankZeroFails) {
  const auto fails = [](HookRun& run) { RUN_CHECK(!is_at(run, 0, 3), ErrorKind::kRun, "no more"); };
  EXPECT_EQ(error_of(fails), "no more");
}

// Even if a device waits for the missing rank: the error comes from its collective.
TEST_P(GpuRanks, ReportAMissingRank) {
  const auto stays_away = [](HookRun& run) {
    while (is_at(run, 1, 3) && !run.must_end()) std::this_thread::yield();
  };
  EXPECT_EQ(error_of(stays_away, {"collective_timeout=1", "num_processes=2"}),
            "rank 1 did not reach all_reduce of gradients, (67) f32, at step 4 within 1 s (collective_timeout); it "
            "last called all_reduce of requests to stop or save, (8) i64, at step 3\n  note: on gpu 0\n  note: in "
            "training batch 4 (epoch 0)");
}

}  // namespace
}  // namespace runner::train
