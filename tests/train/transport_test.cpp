// Whole runs have the same bits over a transport without symmetric memory: points, checkpoints, resumed runs.
#include <cctype>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "runner/lua/hook_file.h"
#include "tests/backends/support/copying_group.h"
#include "tests/backends/support/on_threads.h"
#include "tests/train/run_fixture.h"

namespace runner::train {
namespace {

using backends::testing::on_copying_threads;
using backends::testing::on_threads;

// 50 samples in batches of 4 on 3 ranks: the last batch of an epoch is uneven.
constexpr const char* kRecipe = R"(schema_version: 1
name: small
seed: 7
num_processes: 3
model: {type: mlp, hidden: [8], dropout: 0.25}
data:
  train: {format: synthetic, samples: 50, features: [5], classes: 3}
  eval: {format: synthetic, samples: 31, features: [5], classes: 3}
  batch_size: 4
optimizer: {type: adamw, lr: 0.01}
train: {epochs: 3}
checkpoint: {every: 2 steps}
log: {every: 1 step}
)";

constexpr const char* kLoop = R"(local nn = require "nn"
return {
  train = function(acc)
    for epoch in acc:epochs() do
      for batch in acc:batches("train") do
        acc:accumulate(function()
          acc:backward(nn.cross_entropy(acc.model(batch.features), batch.labels))
          if acc.sync_gradients then acc:log{norm = acc:clip_grad_norm(0.5)} end
          acc.optimizer:step()
          acc.scheduler:step()
          acc.optimizer:zero_grad()
        end)
      end
    end
  end,
})";

class TransportTest : public RunFixture {
 protected:
  TransportTest() { write("loop.lua", kLoop); }

  RunResult run_on(const Transport& transport, const std::string& store, const std::vector<std::string>& overrides,
                   int64_t stop_after = 0, const std::string& resume = {}) {
    return train(kRecipe, {.store = store,
                           .resume = resume,
                           .overrides = overrides,
                           .stop_after = stop_after,
                           .make_hooks = lua::hooks_maker(),
                           .transport = transport});
  }

  // `run`: the result of the run in `store`.
  void expect_same(const RunResult& run, const std::string& store, const std::string& expected) const {
    EXPECT_EQ(last_state(store), last_state(expected));
    for (const auto& [metric, range] : run.metrics) {
      if (metric == "train/samples_per_s") continue;
      EXPECT_EQ(points(metric, store), points(metric, expected)) << metric;
    }
  }

  const Transport shared_ = [](int size, const auto& body) { on_threads(size, body, {.spin = false}); };
  const Transport copies_ = [](int size, const auto& body) { on_copying_threads(size, body); };
};

const std::vector<std::string> kCases[] = {
    {},
    {"gradient_accumulation_steps=3"},
    {"train.clip_grad_norm=0.5"},
    {"mixed_precision=fp16", "scaler.init_scale=1024"},
    {"mixed_precision=bf16", "train.clip_grad_norm=0.5"},
    {"comm.hook=bf16"},
    {"hooks=loop.lua"},
    {"hooks=loop.lua", "gradient_accumulation_steps=3", "mixed_precision=fp16"},
    {"backend=gpu", "train.clip_grad_norm=0.5"},
    {"backend=tpu"},
};

class TransportCase : public TransportTest, public ::testing::WithParamInterface<std::vector<std::string>> {};

TEST_P(TransportCase, TrainsWithTheSameBits) {
  ASSERT_EQ(run_on(shared_, "shared.db", GetParam()).exit_code, 0);
  const RunResult copied = run_on(copies_, "copied.db", GetParam());
  ASSERT_EQ(copied.exit_code, 0);
  EXPECT_GT(copied.optimizer_steps, 3);
  expect_same(copied, "copied.db", "shared.db");
}

TEST_P(TransportCase, ResumesWithTheSameBits) {
  ASSERT_EQ(run_on(shared_, "shared.db", GetParam()).exit_code, 0);
  const RunResult part = run_on(copies_, "copied.db", GetParam(), /*stop_after=*/3);
  ASSERT_EQ(part.exit_code, 4);
  const RunResult rest = run_on(copies_, "copied.db", GetParam(), 0, part.run);
  ASSERT_EQ(rest.exit_code, 0);
  EXPECT_EQ(rest.run, part.run);
  expect_same(rest, "copied.db", "shared.db");
}

INSTANTIATE_TEST_SUITE_P(Recipes, TransportCase, ::testing::ValuesIn(kCases), [](const auto& test) {
  std::string name = "plain";
  if (!test.param.empty()) name = fmt::format("{}", fmt::join(test.param, "_"));
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
});

// A run may continue on another transport.
TEST_F(TransportTest, ResumesACheckpointOfAnotherTransport) {
  const std::vector<std::string> overrides{"gradient_accumulation_steps=3", "train.clip_grad_norm=0.5"};
  ASSERT_EQ(run_on(shared_, "whole.db", overrides).exit_code, 0);
  const RunResult part = run_on(copies_, "parts.db", overrides, /*stop_after=*/2);
  ASSERT_EQ(part.exit_code, 4);
  const RunResult rest = run_on(shared_, "parts.db", overrides, 0, part.run);
  ASSERT_EQ(rest.exit_code, 0);
  expect_same(rest, "parts.db", "whole.db");
}

}  // namespace
}  // namespace runner::train
