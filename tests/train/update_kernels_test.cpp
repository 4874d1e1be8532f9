// Every update of a flat buffer runs as compiled loops: a rule whose recording changes must not lose its kernel
// silently.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/plan/plan.h"
#include "tests/train/step_fixture.h"

namespace runner::train {
namespace {

using schema::OptimizerHyper;
using schema::OptimizerType;

struct Variant {
  std::string name;
  OptimizerType type;
  OptimizerHyper hyper;
};

// Every rule with every option that changes what it records.
std::vector<Variant> variants() {
  using H = OptimizerHyper;
  struct Option {
    const char* name;
    void (*set)(H& hyper);
  };
  const auto all = [](OptimizerType type, const char* name, std::vector<Option> options) {
    std::vector<Variant> made;
    for (size_t chosen = 0; chosen < size_t{1} << options.size(); ++chosen) {
      Variant variant{name, type, {.lr = 0.1}};
      for (size_t i = 0; i < options.size(); ++i) {
        if ((chosen >> i & 1) == 0) continue;
        options[i].set(variant.hyper);
        variant.name += fmt::format(" {}", options[i].name);
      }
      made.push_back(variant);
    }
    return made;
  };
  const Option decay{"decay", [](H& h) { h.weight_decay = 0.01; }};
  const Option momentum{"momentum", [](H& h) { h.momentum = 0.9; }};
  const Option nesterov{"nesterov", [](H& h) { h.momentum = 0.9, h.nesterov = true; }};
  const Option amsgrad{"amsgrad", [](H& h) { h.amsgrad = true; }};
  const Option centered{"centered", [](H& h) { h.centered = true; }};
  std::vector<Variant> found;
  for (const auto& some :
       {all(OptimizerType::kSgd, "sgd", {decay, momentum}), all(OptimizerType::kSgd, "sgd", {decay, nesterov}),
        all(OptimizerType::kAdam, "adam", {decay, amsgrad}), all(OptimizerType::kAdamW, "adamw", {decay, amsgrad}),
        all(OptimizerType::kRmsprop, "rmsprop", {decay, momentum, centered}),
        all(OptimizerType::kAdagrad, "adagrad", {decay}), all(OptimizerType::kLion, "lion", {decay})})
    found.insert(found.end(), some.begin(), some.end());
  return found;
}

// The kernels of one training step that write arrays as long as the flat buffer of all parameters.
std::vector<std::string> flat_kernels(const schema::Recipe& recipe, const StepShape& shape) {
  const Steps steps(recipe);
  const backends::Plan plan =
      backends::build_plan(steps.builder.complete(steps.builder.record(shape.batch, true), shape));
  std::vector<std::string> names;
  for (const backends::PlanStep& step : plan.steps)
    if (plan.program.type(step.node).shape == backends::Shape{steps.parameters()}) names.push_back(step.kernel.name);
  return names;
}

void expect_compiled(const schema::Recipe& recipe, const StepShape& shape, const std::string& what) {
  const std::vector<std::string> names = flat_kernels(recipe, shape);
  EXPECT_FALSE(names.empty()) << what;
  for (const std::string& name : names) EXPECT_FALSE(name.starts_with("eltwise.vm")) << what << ": " << name;
}

TEST(UpdateKernels, EveryUpdateIsCompiled) {
  for (const Variant& variant : variants())
    for (const char* clip : {"no clipping", "clip_grad_norm", "clip_grad_value"}) {
      schema::Recipe recipe = Steps::recipe();
      recipe.optimizer = {variant.type, variant.hyper, {}};
      if (clip == std::string("clip_grad_norm")) recipe.train.clip_grad_norm = 1.0;
      if (clip == std::string("clip_grad_value")) recipe.train.clip_grad_value = 0.5;
      const std::string what = fmt::format("{}, {}", variant.name, clip);
      recipe.gradient_accumulation_steps = 1;
      expect_compiled(recipe, {.batch = 2, .first = true, .last = true}, what);
      recipe.gradient_accumulation_steps = 2;
      expect_compiled(recipe, {.batch = 2, .first = false, .last = false}, what + ", middle of a window");
      expect_compiled(recipe, {.batch = 2, .first = false, .last = true}, what + ", end of a window");
    }
}

}  // namespace
}  // namespace runner::train
