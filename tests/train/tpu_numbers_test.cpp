// Whole runs on an emulated TPU, compared with the CPU.
#include <algorithm>
#include <bit>
#include <cmath>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/tensor/float16.h"
#include "runner/formats/safetensors.h"
#include "runner/lua/hook_file.h"
#include "tests/support/bytes.h"
#include "tests/support/paths.h"
#include "tests/train/run_fixture.h"

namespace runner::train {
namespace {

class TpuNumbers : public RunFixture {
 protected:
  using Sections = std::map<std::string, std::vector<std::byte>>;

  RunResult train_on(const std::string& recipe, const std::string& store, std::vector<std::string> overrides) {
    overrides.emplace_back("num_processes=1");
    const RunResult result = train(recipe, {.store = store, .overrides = std::move(overrides)});
    EXPECT_EQ(result.exit_code, 0) << (result.error ? result.error->message : "");
    return result;
  }

  // Parameters and slots of the newest checkpoint.
  Sections tensors(const std::string& store) const {
    Sections tensors;
    for (auto& [name, bytes] : last_state(store))
      if (name.starts_with("model/") || name.starts_with("optimizer/")) tensors[name] = bytes;
    EXPECT_FALSE(tensors.empty());
    return tensors;
  }

  // A training whose gradients are -x: a recipe, and loop.lua with the same training.
  std::string recipe_of_sums(const std::string& rows) {
    write("rows.csv", rows);
    const float zero = 0;
    formats::write_safetensors(path("zero.safetensors"),
                               {{"0.weight", backends::DType::kF32, {1, 1}, std::as_bytes(std::span(&zero, 1))}});
    write("loop.lua", R"(local nn = require "nn"
return {train = function(acc)
  for epoch in acc:epochs() do
    for batch in acc:batches("train") do
      acc:accumulate(function()
        acc:backward(nn.l1(acc.model(batch.features), batch.labels, {reduction = "none"}))
        acc.optimizer:step()
        acc.optimizer:zero_grad()
      end)
    end
  end
end}
)");
    return fmt::format(R"(schema_version: 1
backend: tpu
mixed_precision: bf16
model: {{type: linear, bias: false, init_from: {}}}
data: {{train: {{format: csv, path: {}, label: y}}, batch_size: 1, shuffle: false}}
optimizer: {{type: sgd, lr: 1.0}}
train: {{epochs: 1, loss: l1}}
)",
                       path("zero.safetensors").string(), path("rows.csv").string());
  }

  // How many numbers of a checkpoint bf16 cannot represent.
  int64_t beyond_bf16(const std::string& store) const {
    int64_t count = 0;
    for (const auto& [name, bytes] : tensors(store))
      for (const float value : support::numbers_of<float>(bytes))
        count += (std::bit_cast<uint32_t>(value) & 0xffffu) != 0;
    return count;
  }
};

std::string digits() {
  std::ifstream file(support::source_path("recipes/digits.yaml"));
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}
const std::string kDigitsData = "data.train.path=" + support::source_path("recipes/data/digits.csv.gz");

TEST_F(TpuNumbers, AtHighestPrecisionARunIsBitIdenticalToTheCpu) {
  train_on(digits(), "cpu.db", {kDigitsData, "train.epochs=3"});
  train_on(digits(), "tpu.db", {kDigitsData, "train.epochs=3", "backend=tpu", "tpu.matmul_precision=highest"});
  EXPECT_EQ(tensors("tpu.db"), tensors("cpu.db"));
  for (const char* metric : {"train/loss", "eval/loss", "eval/accuracy"}) {
    EXPECT_FALSE(points(metric, "cpu.db").empty());
    EXPECT_EQ(points(metric, "tpu.db"), points(metric, "cpu.db")) << metric;
  }
}

// Products have eight bits by default, weights all of theirs.
TEST_F(TpuNumbers, FloatsAreMultipliedInBf16ByDefault) {
  train_on(kFourEpochs, "cpu.db", {});
  train_on(kFourEpochs, "tpu.db", {"backend=tpu"});
  EXPECT_NE(tensors("tpu.db"), tensors("cpu.db"));
  EXPECT_GT(beyond_bf16("tpu.db"), 0);
  const double loss = points("train/loss", "cpu.db").back().second;
  EXPECT_NEAR(points("train/loss", "tpu.db").back().second, loss, 0.01);
}

// There is no master copy: parameters and moments in a checkpoint are representable in bf16.
TEST_F(TpuNumbers, WithBf16EveryTensorIsBf16) {
  for (const char* rounding : {"tpu.rounding=per_op", "tpu.rounding=fused"})
    for (const char* downcast : {"downcast_bf16=false", "downcast_bf16=true"}) {
      const std::string store = std::string(rounding) + downcast + ".db";
      train_on(kFourEpochs, store, {"backend=tpu", "mixed_precision=bf16", rounding, downcast});
      EXPECT_EQ(beyond_bf16(store), 0);
      EXPECT_LT(points("train/loss", store).back().second, points("train/loss", store).front().second);
    }
  EXPECT_NE(tensors("tpu.rounding=per_opdowncast_bf16=false.db"), tensors("tpu.rounding=fuseddowncast_bf16=false.db"));
}

// Numbers of `ranks` ranks with `batches` samples each, in the order of the data: sample i belongs to rank i mod ranks.
// Each rank adds up its own in bf16, like a TPU without a master copy; one all-reduce adds the sums in f32 and rounds
// once.
float sum_on_tpus(const std::vector<float>& numbers, size_t ranks) {
  const auto rounded = [](float x) { return backends::bf16_to_f32(backends::f32_to_bf16(x)); };
  std::vector<float> by_rank(ranks);
  for (size_t i = 0; i < numbers.size(); ++i) by_rank[i % ranks] = rounded(by_rank[i % ranks] + numbers[i]);
  float all = 0;
  for (const float sum : by_rank) all += sum;
  return rounded(all);
}

// The gradient of |0 · x - 1| with respect to the weight is -x. One step of plain gradient descent at rate 1 moves the
// weight from zero to the mean of all x, whose number is a power of two.
TEST_F(TpuNumbers, Bf16SumsAreAddedUpPerRankAndThenOnceInF32) {
  std::string rows = "x,y\n";
  std::vector<float> numbers;
  for (uint32_t i = 0; i < 512; ++i) {
    numbers.push_back(1 + static_cast<float>(i * 37 % 128) / 128);  // a bf16 has 7 bits of mantissa
    rows += fmt::format("{},1\n", numbers.back());
  }
  const std::string recipe = recipe_of_sums(rows);
  for (const size_t ranks : {1, 2, 8}) {
    const float expected = sum_on_tpus(numbers, ranks) / 512;
    for (const char* hooks : {"", "loop.lua"})
      for (const char* each : {"false", "true"})
        for (const char* rounding : {"per_op", "fused"}) {
          const std::string store = fmt::format("{}{}{}{}.db", ranks, hooks, each, rounding);
          std::vector<std::string> overrides{
              fmt::format("num_processes={}", ranks), fmt::format("gradient_accumulation_steps={}", 512 / ranks),
              fmt::format("sync_each_batch={}", each), fmt::format("tpu.rounding={}", rounding)};
          if (*hooks != '\0') overrides.push_back(fmt::format("hooks={}", hooks));
          const RunResult result =
              train(recipe, {.store = store, .overrides = overrides, .make_hooks = lua::hooks_maker()});
          ASSERT_EQ(result.exit_code, 0) << (result.error ? result.error->message : "");
          EXPECT_EQ(support::numbers_of<float>(tensors(store).at("model/0.weight")), std::vector{expected}) << store;
        }
  }
}

// Eight ranks have one square of the norm's sum each: 256 and seven times 1. Their sum, 263, is rounded once, to 264.
TEST_F(TpuNumbers, TheNormOfAllRanksIsRoundedOnce) {
  std::string rows, row;
  for (int i = 0; i < 128; ++i) {  // a shard has 16 weights
    rows += fmt::format("x{},", i);
    row += i == 0 ? "16," : i % 16 == 0 ? "1," : "0,";
  }
  rows += "y\n";
  for (int i = 0; i < 8; ++i) rows += row + "0.5\n";
  const std::vector<float> zeros(128);
  std::string recipe = recipe_of_sums(rows);
  formats::write_safetensors(path("zero.safetensors"),
                             {{"0.weight", backends::DType::kF32, {1, 128}, std::as_bytes(std::span(zeros))}});
  write("clip.lua", R"(local nn = require "nn"
return {train = function(acc)
  for epoch in acc:epochs() do
    for batch in acc:batches("train") do
      acc:backward(nn.l1(acc.model(batch.features), batch.labels, {reduction = "none"}))
      acc:log({norm = acc:clip_grad_norm(1)})
      acc.optimizer:step()
      acc.optimizer:zero_grad()
    end
  end
end}
)");
  const auto train_with = [&](const char* store, const char* override) {
    const RunResult result = train(recipe, {.store = store,
                                            .overrides = {"num_processes=8", "log.every=1 step", override},
                                            .make_hooks = lua::hooks_maker()});
    EXPECT_EQ(result.exit_code, 0) << (result.error ? result.error->message : "");
  };
  train_with("recipe.db", "train.clip_grad_norm=1");
  train_with("hook.db", "hooks=clip.lua");
  EXPECT_EQ(points("train/grad_norm", "recipe.db").back().second, 16.25);  // the root of 264 in bf16
  EXPECT_EQ(points("norm", "hook.db").back().second, 16.25);
  EXPECT_EQ(tensors("hook.db"), tensors("recipe.db"));
}

// 512 equal gradients: one process stops adding after 256 of them, and two processes lose nothing.
TEST_F(TpuNumbers, WarnsIfTheSumOfGradientsStopsGrowing) {
  std::string rows = "x,y\n";
  for (int i = 0; i < 512; ++i) rows += "1,0.5\n";
  const std::string recipe = recipe_of_sums(rows);
  const auto warnings = [&](const char* hooks, int64_t ranks, const char* precision) {
    std::vector<std::string> overrides{fmt::format("num_processes={}", ranks),
                                       fmt::format("gradient_accumulation_steps={}", 512 / ranks),
                                       fmt::format("mixed_precision={}", precision)};
    if (*hooks != '\0') overrides.push_back(fmt::format("hooks={}", hooks));
    const RunResult result = train(recipe, {.overrides = overrides, .make_hooks = lua::hooks_maker()});
    EXPECT_EQ(result.exit_code, 0) << (result.error ? result.error->message : "");
    return result.warnings;
  };
  const std::vector<std::string> expected{
      "gradient_accumulation_steps: each process adds up 512 gradients in the TPU's bf16, but a sum of equal ones "
      "stops "
      "growing at 256; use a larger data.batch_size, or more processes",
      "gradient accumulation in the TPU's bf16 lost 50 % of the gradients: one below 1/256 of the sum so far does not "
      "change it; use a larger data.batch_size with fewer gradient_accumulation_steps, or more processes"};
  for (const char* hooks : {"", "loop.lua"}) {
    EXPECT_EQ(warnings(hooks, 1, "bf16"), expected) << hooks;
    EXPECT_EQ(warnings(hooks, 2, "bf16"), std::vector<std::string>()) << hooks;
    EXPECT_EQ(warnings(hooks, 1, "no"), std::vector<std::string>()) << hooks;
  }
}

// A loop that accumulates by itself: with several ranks, rank 0 adds its part to the sum over all of them.
TEST_F(TpuNumbers, MeasuresTheSumsOfALoopThatKeepsGradients) {
  std::string rows = "x,y\n";
  for (int i = 0; i < 512; ++i) rows += "1,0.5\n";
  const std::string recipe = recipe_of_sums(rows);
  write("keep.lua", R"(local nn = require "nn"
return {train = function(acc)
  for epoch in acc:epochs() do
    for batch in acc:batches("train") do
      acc:backward(nn.l1(acc.model(batch.features), batch.labels, {reduction = "none"}))
    end
    acc.optimizer:step()
  end
end}
)");
  const auto warnings = [&](const char* ranks) {
    const RunResult result = train(recipe, {.overrides = {"hooks=keep.lua", ranks}, .make_hooks = lua::hooks_maker()});
    EXPECT_EQ(result.exit_code, 0) << (result.error ? result.error->message : "");
    return std::ranges::count_if(result.warnings,
                                 [](const std::string& text) { return text.find("lost 50 %") != std::string::npos; });
  };
  EXPECT_EQ(warnings("num_processes=1"), 1);
  EXPECT_EQ(warnings("num_processes=8"), 0);
}

// Gradients of both signs and of other sizes than their sum are rounded up as often as down.
TEST_F(TpuNumbers, DoesNotWarnOfGradientsThatRoundToTheirMean) {
  std::vector<std::string> overrides{kDigitsData,
                                     "train.epochs=1",
                                     "backend=tpu",
                                     "mixed_precision=bf16",
                                     "data.batch_size=4",
                                     "gradient_accumulation_steps=128",
                                     "optimizer={type: sgd, lr: 0.1}"};
  overrides.emplace_back("num_processes=1");
  const RunResult result = train(digits(), {.overrides = overrides});
  EXPECT_EQ(std::ranges::count_if(result.warnings,
                                  [](const std::string& text) { return text.find("lost") != std::string::npos; }),
            0);
}

// The warning matters most if the run fails because of it. It is given however the mask is made and run.
TEST_F(TpuNumbers, ReportsAMaskThatOverflows) {
  const char* masks[] = {"nn.where(logits:gt(9), logits, -3.4e38)", "logits:masked_fill(logits:lt(9), -3.4e38)",
                         "logits + (logits * 0 + 1) * -3.4e38", "logits + nn.tensor{-3.4e38, -3.4e38, -3.4e38}"};
  for (const char* mask : masks)
    for (const char* mode : {"tpu.eager=false", "tpu.eager=true", "tpu.dialect=clean"}) {
      write("mask.lua", fmt::format(R"(local nn = require "nn"
return {{training_step = function(acc, batch)
  local logits = acc.model(batch.features)
  return nn.cross_entropy({}, batch.labels, {{reduction = "none"}})
end}}
)",
                                    mask));
      const RunResult result =
          train(kFourEpochs, {.overrides = {"backend=tpu", "num_processes=1", "mixed_precision=bf16", "hooks=mask.lua",
                                            "optimizer.betas=[0.9, 0.99]", mode},
                              .make_hooks = lua::hooks_maker()});
      EXPECT_EQ(result.exit_code, 1);
      EXPECT_EQ(
          std::ranges::count(
              result.warnings,
              path("mask.lua").string() +
                  ":4: the number -3.4e+38 becomes -inf in the TPU's bf16; use a mask of -1e+30, which stays finite"),
          1)
          << mask << ", " << mode << ": " << fmt::format("{}", fmt::join(result.warnings, "\n"));
    }
}

// Like those of a recipe, with the line that made the optimizer, or for a rule with the line of the number.
TEST_F(TpuNumbers, WarnsOfHookOptimizerNumbersThatRoundToOneOrZero) {
  write("adam.lua", R"(local optim = require "optim"
return {optimizers = function(model)
  return optim.Adam(model, {betas = {0.9, 0.999}, eps = 1e-45})
end}
)");
  write("rule.lua", R"(local optim = require "optim"
return {optimizers = function(model)
  return optim.Optimizer(model, {slots = {"m"}, update = function(p, g, slots, lr)
    slots.m = slots.m * 0.999 + g * -0.0625
    return p + lr * slots.m - g * 1e-39
  end})
end}
)");
  const auto warnings_of = [&](const std::string& hook, const char* precision) {
    return train(kFourEpochs,
                 {.overrides = {"backend=tpu", "num_processes=1", precision, "hooks=" + hook, "optimizer={type: hook}"},
                  .make_hooks = lua::hooks_maker()})
        .warnings;
  };
  const std::string adam = path("adam.lua").string(), rule = path("rule.lua").string();
  EXPECT_EQ(warnings_of("adam.lua", "mixed_precision=bf16"),
            (std::vector<std::string>{
                adam + ":3: betas: 0.999 rounds to 1 in the TPU's bf16, so the second moment never "
                       "decays; use at most 0.99609375, the largest bf16 number below 1",
                adam + ":3: eps: 1e-45 rounds to 0 in the TPU's bf16, so a gradient that was always 0 "
                       "is divided by 0; use at least 1.1754944e-38, the smallest bf16 number above 0"}));
  EXPECT_EQ(
      warnings_of("rule.lua", "mixed_precision=bf16"),
      (std::vector<std::string>{
          rule + ":4: the number 0.999 rounds to 1 in the TPU's bf16; the nearest other bf16 number is 0.99609375",
          rule +
              ":5: the number 1e-39 rounds to 0 in the TPU's bf16; the nearest other bf16 number is 1.1754944e-38"}));
  EXPECT_EQ(warnings_of("adam.lua", "mixed_precision=no"), std::vector<std::string>{});
  EXPECT_EQ(warnings_of("rule.lua", "mixed_precision=no"), std::vector<std::string>{});
}

// Of 300 tokens: bf16 would round 257 to 256.
TEST_F(TpuNumbers, TokensAreNotRounded) {
  std::string text;
  for (int letter = 0; letter < 300; ++letter)  // from U+0100 on
    text += {static_cast<char>(0xc4 + letter / 64), static_cast<char>(0x80 + letter % 64)};
  write("t.txt", text);
  write("sum.lua", R"(local nn = require "nn"
return {model = function() return nn.Sequential{nn.Embedding(300, 4), nn.Linear(4, 300)} end,
  training_step = function(acc, batch)
  local loss = nn.cross_entropy(acc.model(batch.features):reshape(299, 300), batch.labels:reshape(299))
  return {loss = loss, right = batch.features:sum():eq(298 * 299 // 2):cast("f32")}
end}
)");
  const RunResult result = train(R"(schema_version: 1
name: tokens
backend: tpu
num_processes: 1
mixed_precision: bf16
hooks: sum.lua
data: {train: {format: text, path: t.txt, sequence_length: 299}, batch_size: 1}
optimizer: {type: sgd, lr: 0.1}
train: {epochs: 1}
log: {every: 1 step}
)",
                                 {.make_hooks = lua::hooks_maker()});
  ASSERT_EQ(result.exit_code, 0) << (result.error ? result.error->message : "");
  EXPECT_EQ(points("train/right").back().second, 1);
}

// 301 samples are not rounded to 300, and a sum of losses is reported with more than eight bits.
TEST_F(TpuNumbers, EngineBookkeepingIsNotRounded) {
  const std::string recipe = R"(schema_version: 1
name: accounts
model: {type: linear}
data: {train: {format: synthetic, samples: 301, features: [5], classes: 3}, batch_size: 301, shuffle: false}
optimizer: {type: sgd, lr: 1e-9}
train: {epochs: 2}
log: {every: 1 step}
)";
  train_on(recipe, "cpu.db", {});
  train_on(recipe, "tpu.db", {"backend=tpu", "mixed_precision=bf16"});
  const double on_cpu = points("train/loss", "cpu.db").back().second;
  const double on_tpu = points("train/loss", "tpu.db").back().second;
  EXPECT_NEAR(on_tpu, on_cpu, 0x1p-10);  // the errors of 301 rounded losses cancel
  EXPECT_NE(static_cast<float>(on_tpu),
            std::bit_cast<float>(std::bit_cast<uint32_t>(static_cast<float>(on_tpu)) & 0xffff0000u));
}

// 0.999 rounds to 1 in bf16, so after many steps with vanishing gradients the second moment has not changed.
TEST_F(TpuNumbers, AdamsSecondMomentNeverDecays) {
  const auto largest = [&](const std::string& store) {
    float most = 0;
    for (const auto& [name, bytes] : tensors(store))
      if (name.find("exp_avg_sq") != std::string::npos)
        for (const float value : support::numbers_of<float>(bytes)) most = std::max(most, value);
    return most;
  };
  const std::string recipe = R"(schema_version: 1
name: decay
model: {type: linear}
data: {train: {format: synthetic, samples: 64, features: [5], targets: 1}, batch_size: 64, shuffle: false}
optimizer: {type: adam, lr: 1e-6}
train: {steps: 1}
)";
  for (const char* steps : {"1", "4000"})
    train_on(recipe, std::string(steps) + ".db",
             {"backend=tpu", "mixed_precision=bf16", std::string("train={steps: ") + steps + "}"});
  EXPECT_GT(largest("1.db"), 0);
  // With a constant gradient g, v stalls within one bit of half of g², which is 500 times that of the first step.
  EXPECT_NEAR(largest("4000.db") / largest("1.db"), 500, 260);
}

}  // namespace
}  // namespace runner::train
