// Cost of recording a step in Lua: nanoseconds per node, from the call of the hook to the plan found in the cache.
//
//     lua_bench [ROUNDS [BACKEND]]      2,000 recordings of each step for cpu; with tpu, numbers are inputs
//
// Next to each: the same for a step of similar nodes that C++ records without a hook.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "backends/exec/plan_cache.h"
#include "runner/lua/hook_file.h"
#include "runner/train/step/step_builder.h"
#include "runner/train/step/step_specification.h"

namespace {

using namespace runner;
using Clock = std::chrono::steady_clock;

constexpr int64_t kBatch = 32;

// recipes/hooks/digits.lua
constexpr const char* kDigits = R"(
local nn = require "nn"
return {
  model = function(cfg)
    return nn.Sequential{nn.Linear(cfg.features[1], 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, cfg.outputs)}
  end,
  training_step = function(acc, batch)
    local logits = acc.model(batch.features)
    local loss = nn.cross_entropy(logits, batch.labels, {reduction = "none"})
    local log_p = logits:log_softmax()
    local entropy = -(log_p:exp() * log_p):sum(2)
    return {loss = loss - 0.02 * entropy, entropy = entropy, accuracy = logits:argmax():eq(batch.labels)}
  end,
})";

// 20 residual blocks by hand.
constexpr const char* kBlocks = R"(
local nn = require "nn"
return {
  model = function(cfg)
    local blocks = {}
    for i = 1, 20 do
      blocks[i] = nn.Module{
        norm = nn.LayerNorm(64), up = nn.Linear(64, 128), down = nn.Linear(128, 64),
        forward = function(self, x) return x + self.down(self.up(self.norm(x)):gelu()) end,
      }
    end
    blocks[21] = nn.Linear(64, cfg.outputs)
    return nn.Sequential(blocks)
  end,
  training_step = function(acc, batch)
    return nn.cross_entropy(acc.model(batch.features), batch.labels, {reduction = "none"})
  end,
})";

// 1,000 element-wise ops.
constexpr const char* kArithmetic = R"(
return {
  training_step = function(acc, batch)
    local x = acc.model(batch.features)
    local y = x:tanh()
    for i = 1, 250 do
      x = x * y + x
      y = (y - x):tanh()
    end
    return x:mean(2)
  end,
})";

// 1,000 element-wise ops, half of them with a number that differs in each step.
constexpr const char* kNumbers = R"(
local step = 0
return {
  training_step = function(acc, batch)
    step = step + 1
    local x, factor = acc.model(batch.features), 1 / (1 + step)
    local y = x:tanh()
    for i = 1, 250 do
      x = x * factor + y
      y = (factor - x):tanh()
    end
    return x:mean(2)
  end,
})";

schema::Recipe recipe_of(const char* hook, schema::Backend backend) {
  schema::Recipe recipe;
  recipe.name = "bench";
  recipe.backend = backend;
  recipe.data.batch_size = kBatch;
  recipe.optimizer.type = schema::OptimizerType::kAdamw;
  recipe.model.type = schema::ModelType::kMlp;
  recipe.model.hidden = {128};
  if (hook != nullptr) recipe.hooks = "bench.lua";
  return recipe;
}

struct Setup {
  schema::Recipe recipe;
  data::Encoding encoding;
  std::unique_ptr<train::Hooks> hooks;
  nn::Model model;
  train::Optimizers optimizers;
  std::unique_ptr<train::DeviceLayout> layout;
  std::unique_ptr<train::StepBuilder> builder;

  Setup(const char* hook, schema::Backend backend) : recipe(recipe_of(hook, backend)) {
    encoding.feature_shape = backends::Shape{64};
    encoding.label_kind = data::LabelKind::kClass;
    encoding.outputs = 10;
    if (hook != nullptr) hooks = lua::load_hooks(recipe, {{"bench.lua", hook}});
    const bool own_model = train::has(hooks.get(), train::HookEntry::kModel);
    model = own_model ? hooks->model(encoding) : nn::build_model(recipe.model, encoding);
    optimizers = train::optimizers_of(recipe);
    train::lay_out(model.parameters, recipe, optimizers);
    layout = std::make_unique<train::DeviceLayout>(model.parameters, optimizers, false);
    builder = std::make_unique<train::StepBuilder>(recipe, model, optimizers, *layout, encoding, hooks.get());
  }
};

struct Cost {
  int nodes = 0;
  double record_us = 0, find_us = 0;  // medians
};

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Cost measure(const char* hook, schema::Backend backend, int rounds) {
  Setup setup(hook, backend);
  backends::PlanCache<int> cache;
  train::StepBuilder::Recorded recorded;
  std::vector<double> record, find;
  Cost cost;
  for (int i = 0; i < rounds; ++i) {
    const auto begin = Clock::now();
    setup.builder->record_into(recorded, kBatch, true, nullptr);
    const auto recorded_at = Clock::now();
    const auto specification = train::training_specification(*setup.builder, recorded, {.batch = kBatch});
    cache.find_or_make(recorded.program, specification, [] { return 0; });
    const auto end = Clock::now();
    cost.nodes = recorded.program.size();
    record.push_back(std::chrono::duration<double, std::micro>(recorded_at - begin).count());
    find.push_back(std::chrono::duration<double, std::micro>(end - recorded_at).count());
  }
  cost.record_us = median(record);
  cost.find_us = median(find);
  return cost;
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 2000;
  const bool tpu = argc > 2 && std::string_view(argv[2]) == "tpu";
  struct Row {
    const char* name;
    const char* hook;
  };
  constexpr Row kRows[] = {{"declared, C++", nullptr},
                           {"digits, Lua", kDigits},
                           {"blocks, Lua", kBlocks},
                           {"arithmetic, Lua", kArithmetic},
                           {"numbers, Lua", kNumbers}};
  fmt::print("{:18}{:>7}{:>12}{:>11}{:>11}\n", "step", "nodes", "record us", "find us", "ns/node");
  for (const Row& row : kRows) {
    const Cost cost = measure(row.hook, tpu ? schema::Backend::kTpu : schema::Backend::kCpu, rounds);
    fmt::print("{:18}{:7}{:12.2f}{:11.2f}{:11.1f}\n", row.name, cost.nodes, cost.record_us, cost.find_us,
               (cost.record_us + cost.find_us) * 1e3 / cost.nodes);
  }
}
