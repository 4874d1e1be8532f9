// Every update of a flat buffer runs as compiled loops. A rule whose recording changes must not silently lose its
// kernel.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/exec/plan.h"
#include "runner/train/step/declared_step.h"
#include "runner/train/step/rank_reduction.h"
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
        all(OptimizerType::kAdam, "adam", {decay, amsgrad}), all(OptimizerType::kAdamw, "adamw", {decay, amsgrad}),
        all(OptimizerType::kRmsprop, "rmsprop", {decay, momentum, centered}),
        all(OptimizerType::kAdagrad, "adagrad", {decay}), all(OptimizerType::kLion, "lion", {decay})})
    found.insert(found.end(), some.begin(), some.end());
  return found;
}

// Expects the kernels of a Program that write arrays of `elements` elements to be compiled.
void expect_compiled(const backends::Program& program, int64_t elements, const std::string& what) {
  const backends::Plan plan = backends::build_plan(program);
  std::vector<std::string> names;
  for (const backends::PlanStep& step : plan.steps)
    if (plan.program.type(step.node).shape == backends::Shape{elements}) names.push_back(step.kernel.name);
  EXPECT_FALSE(names.empty()) << what;
  for (const std::string& name : names) EXPECT_FALSE(name.starts_with("eltwise.vm")) << what << ": " << name;
}

// Of a training step, those of the flat buffer of all parameters.
void expect_compiled(const schema::Recipe& recipe, const StepShape& shape, const std::string& what) {
  const StepFixture steps(recipe);
  expect_compiled(complete_step(steps.builder, steps.builder.record(shape.batch, true), shape).program,
                  steps.parameters(), what);
}

// Of the end of an optimizer step with several ranks, those of a shard.
void expect_shares_compiled(schema::Recipe recipe, int ranks, const std::string& what) {
  recipe.num_processes = ranks;
  const StepFixture steps(recipe);
  int64_t updated = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const Shard shard = steps.shard(rank, ranks);
    const int64_t count = shard.of(0).count;
    if (count > 0) expect_compiled(record_reduction(steps.builder, shard), count, what);
    updated += count;
  }
  EXPECT_EQ(updated, steps.parameters());
}

TEST(UpdateKernels, EveryUpdateIsCompiled) {
  for (const Variant& variant : variants())
    for (const char* clip : {"no clipping", "clip_grad_norm", "clip_grad_value"}) {
      schema::Recipe recipe = StepFixture::recipe();
      recipe.optimizer = {.hyper = variant.hyper, .type = variant.type};
      if (clip == std::string("clip_grad_norm")) recipe.train.clip_grad_norm = 1.0;
      if (clip == std::string("clip_grad_value")) recipe.train.clip_grad_value = 0.5;
      const std::string what = fmt::format("{}, {}", variant.name, clip);
      recipe.gradient_accumulation_steps = 1;
      expect_compiled(recipe, {.batch = 2, .first = true, .last = true}, what);
      recipe.gradient_accumulation_steps = 2;
      expect_compiled(recipe, {.batch = 2, .first = false, .last = true}, what + ", end of a window");
      for (const int ranks : {2, 8, 16})
        expect_shares_compiled(recipe, ranks, fmt::format("{}, {} ranks", what, ranks));
    }
}

// For batches after the first of an optimizer step: each gradient is added in place as soon as it is complete.
TEST(UpdateKernels, GradientsAreAddedInPlace) {
  for (const bool last : {false, true}) {
    schema::Recipe recipe = StepFixture::recipe();
    recipe.gradient_accumulation_steps = 2;
    const StepFixture steps(recipe);
    const StepShape shape{.batch = 2, .first = false, .last = last};
    const backends::Plan plan =
        backends::build_plan(complete_step(steps.builder, steps.builder.record(shape.batch, true), shape).program);
    const backends::Program& program = plan.program;
    const int32_t gradients = steps.builder.layout().find(ArrayRole::kGradients) + 1;  // slot
    int64_t added = 0;
    for (const backends::PlanStep& step : plan.steps) {
      if (step.results[0].slot != gradients) continue;
      EXPECT_EQ(step.kernel.name, "eltwise.add");
      EXPECT_EQ(step.operands[0], step.results[0]);
      added += program.type(step.node).shape.elements();
    }
    EXPECT_EQ(added, steps.parameters());
    for (const backends::StateCopy& copy : plan.copies) EXPECT_NE(copy.to.slot, gradients);
    const size_t all = static_cast<size_t>(steps.parameters()) * sizeof(float);
    for (const backends::PlanStep& step : plan.steps)
      for (size_t r = 0; r < step.results.size(); ++r)
        EXPECT_FALSE(step.results[r].slot == 0 && program.type(step.result_values[r]).bytes() >= all)
            << step.kernel.name;
  }
}

}  // namespace
}  // namespace runner::train
