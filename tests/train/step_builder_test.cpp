// The key of the plan cache determines the step.
#include "runner/train/step/step_builder.h"

#include <functional>

#include <gtest/gtest.h>

#include "runner/train/loop/session.h"
#include "runner/train/step/declared_step.h"
#include "runner/train/step/rank_reduction.h"
#include "runner/train/step/step_specification.h"
#include "schema/recipe/recipe_reader.h"
#include "tests/train/run_fixture.h"
#include "tests/train/step_fixture.h"

namespace runner::train {
namespace {

using Change = void (*)(schema::Recipe& recipe);

// Each changes the step, most of them without changing what is recorded.
const Change kChanges[] = {
    [](schema::Recipe&) {},
    [](schema::Recipe& r) { r.optimizer.type = schema::OptimizerType::kAdam; },
    [](schema::Recipe& r) { r.optimizer.type = schema::OptimizerType::kAdamw, r.optimizer.hyper.weight_decay = 0.5; },
    [](schema::Recipe& r) { r.optimizer.type = schema::OptimizerType::kAdagrad; },
    [](schema::Recipe& r) { r.optimizer.hyper.weight_decay = 0.5; },
    [](schema::Recipe& r) { r.optimizer.hyper.momentum = 0.5; },
    [](schema::Recipe& r) { r.optimizer.hyper.momentum = 0.5, r.optimizer.hyper.nesterov = true; },
    [](schema::Recipe& r) { r.optimizer.type = schema::OptimizerType::kAdam, r.optimizer.hyper.beta2 = 0.5; },
    [](schema::Recipe& r) { r.optimizer.type = schema::OptimizerType::kAdam, r.optimizer.hyper.eps = 0.5; },
    [](schema::Recipe& r) { r.optimizer.type = schema::OptimizerType::kAdam, r.optimizer.hyper.amsgrad = true; },
    [](schema::Recipe& r) { r.optimizer.type = schema::OptimizerType::kRmsprop; },
    [](schema::Recipe& r) { r.optimizer.type = schema::OptimizerType::kRmsprop, r.optimizer.hyper.alpha = 0.5; },
    [](schema::Recipe& r) { r.optimizer.type = schema::OptimizerType::kRmsprop, r.optimizer.hyper.centered = true; },
    [](schema::Recipe& r) { r.train.clip_grad_norm = 1; },
    [](schema::Recipe& r) { r.train.clip_grad_norm = 2; },
    [](schema::Recipe& r) { r.train.clip_grad_value = 1; },
    [](schema::Recipe& r) { r.train.clip_grad_value = 2; },
    [](schema::Recipe& r) { r.train.on_nan = schema::OnNan::kSkip; },
    [](schema::Recipe& r) { r.gradient_accumulation_steps = 2; },
    [](schema::Recipe& r) { r.model.hidden = {6}; },
    [](schema::Recipe& r) { r.model.freeze = {"0.bias"}; },
    [](schema::Recipe& r) { r.optimizer.groups = {{.hyper = {.lr = 0.1}, .params = {"*.bias"}}}; },
    [](schema::Recipe& r) { r.optimizer.groups = {{.hyper = {.lr = 0.1, .weight_decay = 0.5}, .params = {"*.bias"}}}; },
};

struct Asked {
  backends::Program recorded;
  backends::StepSpecification specification;
  backends::Program step;
};

Asked ask(Change change, const StepShape& shape) {
  schema::Recipe recipe = StepFixture::recipe();
  change(recipe);
  const StepFixture steps(recipe);
  const StepBuilder::Recorded recorded = steps.builder.record(shape.batch, true);
  return {recorded.program, training_specification(steps.builder, recorded, shape),
          complete_step(steps.builder, recorded, shape).program};
}

TEST(StepBuilder, CacheKeyDeterminesTheStep) {
  std::vector<Asked> asked;
  for (const Change change : kChanges) asked.push_back(ask(change, {.batch = 2}));
  const Change result = [](schema::Recipe& r) { r.gradient_accumulation_steps = 2; };
  for (const StepShape& shape : {StepShape{2, true, false}, {2, false, false}, {2, false, true}, {3, true, true}})
    asked.push_back(ask(result, shape));
  int equal_structures = 0;
  for (size_t i = 0; i < asked.size(); ++i)
    for (size_t j = 0; j < i; ++j) {
      EXPECT_FALSE(asked[i].step.same_structure(asked[j].step)) << i << " and " << j << " must differ";
      if (!asked[i].recorded.same_structure(asked[j].recorded)) continue;
      ++equal_structures;
      EXPECT_NE(asked[i].specification, asked[j].specification) << i << " and " << j;
    }
  EXPECT_GT(equal_structures, 20);
}

TEST(StepBuilder, StepsThatDifferOnlyInRatesShareAPlan) {
  const Asked one = ask(kChanges[0], {.batch = 2});
  const Asked other = ask([](schema::Recipe& r) { r.optimizer.hyper.lr = 0.2, r.seed = 7; }, {.batch = 2});
  EXPECT_TRUE(one.recorded.same_structure(other.recorded));
  EXPECT_EQ(one.specification, other.specification);
  EXPECT_TRUE(one.step.same_structure(other.step));
}

class TrainerTest : public RunFixture {};

TEST(StepBuilder, ACommunicationGraphReducesAllGradients) {
  schema::Recipe recipe = StepFixture::recipe();
  recipe.num_processes = 2;
  recipe.comm.hook = schema::CommHook::kBf16;
  const backends::Program reduced = communication_graph(StepFixture(recipe).builder);
  int64_t elements = 0;
  for (backends::ValueId id = 0; id < reduced.size(); ++id)
    if (is_collective(reduced.node(id).op)) elements += reduced.type(id).shape.elements();
  EXPECT_EQ(elements, StepFixture(recipe).parameters());
  EXPECT_EQ(reduced.outputs().size(), 1U);
}

// Token ids need no labels per token, and labels per token need no token ids.
TEST(StepBuilder, TokensAndLabelsOfTokensAreIndependent) {
  using backends::DType;
  for (const int64_t vocabulary : {0, 10}) {
    for (const int64_t sequence : {0, 4}) {
      const schema::Recipe recipe = StepFixture::recipe();
      data::Encoding encoding = StepFixture::classes();
      encoding.vocabulary = vocabulary;
      encoding.sequence = sequence;
      const StepFixture steps(recipe, encoding);
      backends::Program program;
      StepFrame frame = steps.builder.begin(program, {.batch = 2});
      nn::HostValues host;
      nn::ForwardContext forward = steps.builder.forward_of(program, frame, true, host);
      EXPECT_EQ(frame.features().dtype(), vocabulary > 0 ? DType::kI64 : DType::kF32);
      EXPECT_EQ(frame.features().shape(), (backends::Shape{2, 4}));
      EXPECT_EQ(frame.batch_inputs[kLabels].shape(), sequence > 0 ? (backends::Shape{2, 4}) : backends::Shape{2});
      EXPECT_EQ(steps.builder.inputs_of(forward, frame).outputs,
                sequence > 0 ? (backends::Shape{2, 4, 3}) : (backends::Shape{2, 3}));
    }
  }
}

// Ten samples in batches of four, two per optimizer step: (4, first), (4, last), then (2, first and last).
TEST_F(TrainerTest, CompilesEachKindOfStepOnce) {
  write("recipe.yaml", R"(schema_version: 1
model: {type: mlp, hidden: [8]}
gradient_accumulation_steps: 2
data:
  train: {format: synthetic, samples: 10, features: [5], classes: 3}
  batch_size: 4
  prefetch: 0
optimizer: {type: adam, lr: 0.01}
train: {epochs: 3}
)");
  const schema::ReadResult read = schema::read_recipe(path("recipe.yaml").string(), {});
  Session session(read.recipe);
  data::Loader loader(session.data.train, session.plan, {});
  session.trainer.allocate();
  for (int result = 0; result < 6; ++result) session.trainer.stepper().run(loader, {});
  EXPECT_EQ(session.trainer.plan_use().cache.misses, 3);
  EXPECT_EQ(session.trainer.plan_use().cache.hits, 0);
  EXPECT_EQ(session.trainer.plan_use().replayed, 6);
}

}  // namespace
}  // namespace runner::train
