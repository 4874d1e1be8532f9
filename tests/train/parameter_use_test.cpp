// comm.unused: skip, against torch.optim with gradients that are None.
#include "runner/train/step/parameter_use.h"

#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "runner/formats/safetensors.h"
#include "runner/lua/hook_file.h"
#include "runner/train/loop/hook_run.h"
#include "runner/train/loop/session.h"
#include "schema/recipe/recipe_reader.h"
#include "tests/backends/support/on_threads.h"
#include "tests/golden/golden.h"
#include "tests/support/bytes.h"
#include "tests/train/array_values.h"
#include "tests/train/run_fixture.h"

namespace runner::train {
namespace {

using backends::SharedMemoryGroup;
using backends::testing::on_threads;
using testing::Golden;

constexpr const char* kBranches = R"(schema_version: 1
data: {train: {format: csv, path: data.csv, label: label}, batch_size: 3, shuffle: false}
optimizer: {type: adam}
train: {epochs: 1}
comm: {unused: skip}
threads: 1
hooks: step.lua
model: {type: hook, init_from: initial.safetensors}
)";

// The model of the golden file. path(acc) returns the branches that the current batch uses. There are four batches per
// optimizer step; the k-th batch of process r is number k · P + r.
constexpr const char* kModel = R"(
local nn = require "nn"
local batches, branches = 0, ""
local PATHS = {%s}
local function path(acc)
  local number = batches * acc.num_processes + acc.process_index
  batches = batches + 1
  return PATHS[number + 1]
end
local function model()
  return nn.Module{
    trunk = nn.Linear(5, 6), a = nn.Linear(6, 6), b = nn.Linear(6, 6), spare = nn.Linear(6, 6), head = nn.Linear(6, 3),
    forward = function(self, x)
      x = self.trunk(x):tanh()
      for name in branches:gmatch(".") do x = x + self[name](x):tanh() end
      return self.head(x)
    end}
end
local function loss_of(acc, batch)
  branches = path(acc)
  return nn.cross_entropy(acc.model(batch.features), batch.labels, {reduction = "none"})
end
)";
constexpr const char* kStep = "return {model = model, training_step = loss_of}";
constexpr const char* kLoopHook = R"(
return {
  model = model,
  train = function(acc)
    for batch in acc:batches("train") do
      acc:backward(loss_of(acc, batch))
      if acc.vars.clip_grad_norm then acc:clip_grad_norm(acc.vars.clip_grad_norm) end
      if acc.vars.clip_grad_value then acc:clip_grad_value(acc.vars.clip_grad_value) end
      acc.optimizer:step()
      acc.scheduler:step()
      acc.optimizer:zero_grad()
    end
  end,
}
)";

class ParameterUseTest : public RunFixture {
 protected:
  ParameterUseTest() : file_(Golden::load("unused.json")) {
    write_data();
    write_initial();
    write("recipe.yaml", kBranches);
    write("step.lua", model() + kStep);
    write("loop.lua", model() + kLoopHook);
  }

  // ---- contents of the golden file ----

  void write_data() const {
    const auto x = file_["x"].tensor();
    const auto labels = file_["labels"].integers();
    std::string text = "x0,x1,x2,x3,x4,label\n";
    for (size_t i = 0; i < labels.size(); ++i)
      text += fmt::format("{:.9g},{}\n", fmt::join(std::span(x.values).subspan(i * 5, 5), ","), labels[i]);
    write("data.csv", text);
  }

  void write_initial() const {
    const Golden initial = file_["initial"];
    std::map<std::string, std::vector<float>> values;
    std::vector<formats::NamedTensor> tensors;
    for (const std::string& name : initial.keys()) {
      const auto tensor = initial[name].tensor();
      values[name] = tensor.as<float>();
      tensors.push_back(
          {name, backends::DType::kF32, backends::Shape(tensor.shape), std::as_bytes(std::span(values[name]))});
    }
    formats::write_safetensors(path("initial.safetensors").string(), std::move(tensors));
  }

  std::string model() const {
    std::string paths;
    for (const Golden& step : file_["paths"].items())
      for (const Golden& micro : step.items()) paths += fmt::format("{:?}, ", micro.text());
    std::string text = kModel;
    return text.replace(text.find("%s"), 2, paths);
  }

  static std::vector<std::string> overrides_of(const Golden& item, bool own_loop) {
    std::vector<std::string> overrides;
    for (const std::string& key : item["optimizer"].keys()) {
      const Golden value = item["optimizer"][key];
      const std::string text = key == "type"    ? value.text()
                               : key == "betas" ? fmt::format("[{}]", fmt::join(value.numbers(), ", "))
                               : key == "amsgrad" || key == "centered" || key == "nesterov"
                                   ? std::string(value.flag() ? "true" : "false")
                                   : fmt::format("{}", value.number());
      overrides.push_back(fmt::format("optimizer.{}={}", key, text));
    }
    for (const std::string& key : item["train"].keys())
      overrides.push_back(key == "linear"
                              ? "scheduler.type=linear"
                              : fmt::format("{}.{}={}", own_loop ? "vars" : "train", key, item["train"][key].number()));
    return overrides;
  }

  // ---- training ----

  struct Trained {
    std::map<std::string, std::vector<float>> parameters;
    std::map<std::string, double> updates;  // per parameter
  };

  schema::ReadResult recipe(const Golden& item, const std::vector<std::string>& more) const {
    std::vector<std::string> overrides = overrides_of(item, /*own_loop=*/false);
    overrides.insert(overrides.end(), more.begin(), more.end());
    overrides.push_back("data.train.path=" + path("data.csv").string());
    return schema::read_recipe(path("recipe.yaml").string(), overrides);
  }

  static Trained train_rank(const schema::Recipe& recipe, backends::ProcessGroup* ranks) {
    const auto hooks = lua::load_hooks(recipe);
    Session session(recipe, hooks.get(), ranks);
    session.trainer.allocate();
    session.trainer.step_memory().prepare({.batch = session.plan.slice(session.rank(), 0).size()});
    data::Loader loader(session.data.train, session.plan, {.shuffle = false, .rank = session.rank(), .prefetch = 0});
    RankControl control(ranks);
    hooks->attach(&control);
    for (int64_t step = 0; step < session.length.total_steps; ++step)
      EXPECT_TRUE(session.trainer.stepper().run(loader, session.rates()).finite);
    return trained(session);
  }

  static Trained trained(Session& session) {
    const nn::ParameterSet& parameters = session.trainer.model().parameters;
    const auto values = array_of<float>(session.trainer, ArrayRole::kParameters);
    const auto updates = skips_unused(session.recipe.comm)
                             ? array_of<double>(session.trainer, ArrayRole::kUse, kUpdates)
                             : std::vector<double>(parameters.parameters().size());
    Trained result;
    size_t at = 0;
    for (const nn::ParameterId id : parameters.in_buffer(0)) {
      const nn::Parameter& p = parameters[id];
      result.parameters[p.name] = {values.begin() + p.offset, values.begin() + p.offset + p.elements()};
      result.updates[p.name] = updates.at(at++);
    }
    return result;
  }

  // By rank.
  std::vector<Trained> train_all(const Golden& item, const std::vector<std::string>& more) const {
    const schema::ReadResult read = recipe(item, more);
    const auto size = static_cast<int>(read.recipe.num_processes);
    if (size == 1) return {train_rank(read.recipe, nullptr)};
    std::vector<Trained> results(static_cast<size_t>(size));
    on_threads(size, [&](SharedMemoryGroup& ranks) {
      results[static_cast<size_t>(ranks.rank())] = train_rank(read.recipe, &ranks);
    });
    return results;
  }

  static double worst_difference(const Golden& item, const std::map<std::string, std::vector<float>>& got) {
    double worst = 0;
    for (const std::string& name : item["final"].keys()) {
      const auto want = item["final"][name].tensor().as<double>();
      const std::vector<float>& values = got.at(name);
      EXPECT_EQ(values.size(), want.size()) << name;
      for (size_t i = 0; i < want.size(); ++i)
        worst = std::max(worst, std::fabs(static_cast<double>(values[i]) - want[i]));
    }
    return worst;
  }

  static void expect_pytorchs(const Golden& item, const Trained& got) {
    EXPECT_LT(worst_difference(item, got.parameters), 2e-6 + 4 * item["noise"].number());
    for (const std::string& name : item["updates"].keys())
      EXPECT_EQ(got.updates.at(name), item["updates"][name].number()) << name;
  }

  const Golden file_;

 private:
  // HookRun for the hook.
  class RankControl : public HookRun {
   public:
    explicit RankControl(backends::ProcessGroup* ranks) : ranks_(ranks) {}
    backends::ProcessGroup* ranks() const override { return ranks_; }

   private:
    backends::ProcessGroup* const ranks_;
  };
};

TEST_F(ParameterUseTest, EveryStepMatchesPyTorchWithAnyNumberOfRanks) {
  for (const Golden& item : file_.cases())
    for (const auto& [processes, accumulation] : {std::pair(1, 4), std::pair(2, 2), std::pair(4, 1)}) {
      SCOPED_TRACE(fmt::format("{}, {} processes", item.name(), processes));
      const std::vector<Trained> ranks = train_all(item, {fmt::format("num_processes={}", processes),
                                                          fmt::format("gradient_accumulation_steps={}", accumulation)});
      expect_pytorchs(item, ranks.front());
      for (const Trained& rank : ranks) {
        EXPECT_EQ(rank.parameters, ranks.front().parameters);
        EXPECT_EQ(rank.updates, ranks.front().updates);
      }
    }
}

// Zero gradients would give other results: they decay weights and moments and count as updates.
TEST_F(ParameterUseTest, DiffersFromZeroGradients) {
  for (const Golden& item : file_.cases()) {
    SCOPED_TRACE(item.name());
    const std::vector<Trained> zeros = train_all(item, {"comm.unused=zero", "gradient_accumulation_steps=4"});
    EXPECT_GT(worst_difference(item, zeros.front().parameters), 1e-3);
  }
}

TEST_F(ParameterUseTest, HooksTrainingLoopsSkipTheSameParameters) {
  for (const Golden& item : file_.cases()) {
    SCOPED_TRACE(item.name());
    std::vector<std::string> overrides = overrides_of(item, /*own_loop=*/true);
    overrides.insert(overrides.end(), {"hooks=loop.lua", "gradient_accumulation_steps=4"});
    const std::string store = item.name() + ".db";
    ASSERT_EQ(train(kBranches, {.store = store, .overrides = overrides, .make_hooks = lua::hooks_maker()}).exit_code,
              0);
    Trained got;
    for (const auto& [name, bytes] : last_state(store)) {
      if (name.starts_with("model/")) {
        got.parameters[name.substr(6)] = support::numbers_of<float>(bytes);
      } else if (name.starts_with("use/")) {
        got.updates[name.substr(4)] = support::numbers_of<double>(bytes).at(0);
      }
    }
    expect_pytorchs(item, got);
  }
}

}  // namespace
}  // namespace runner::train
