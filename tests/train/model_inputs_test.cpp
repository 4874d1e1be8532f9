// Inputs in addition to the features reach the step of a training by name, on the CPU and on a GPU, and ids stay
// integers.
#include <gtest/gtest.h>

#include "runner/data/storage.h"
#include "runner/train/loop/session.h"
#include "schema/recipe/recipe_reader.h"
#include "tests/train/test_hooks.h"

namespace runner::train {
namespace {

namespace ops = backends::ops;

constexpr int64_t kId = (1 << 24) + 1;  // f32 rounds it to an even number
constexpr int64_t kSamples = 6;

// Samples with one feature and three segment ids. In sample i, i mod 3 of them are kId.
data::SharedData with_segments() {
  const auto storage = std::make_shared<data::Storage>();
  storage->samples = kSamples;
  storage->feature_shape = {1};
  storage->label_kind = data::LabelKind::kClass;
  storage->outputs = 2;
  data::IdInput& segments = storage->more_inputs.emplace_back();
  segments.input = {"segments", backends::DType::kI64, {3}, kId + 1};
  for (int64_t i = 0; i < kSamples; ++i) {
    storage->values.push_back(static_cast<float>(i));
    storage->classes.push_back(i % 2);
    for (int64_t k = 0; k < 3; ++k) segments.ids.push_back(k < i % 3 ? kId : kId - 1);
  }
  data::Encoding encoding;
  encoding.feature_shape = {1};
  encoding.more_inputs = {segments.input};
  encoding.label_kind = data::LabelKind::kClass;
  encoding.outputs = 2;
  data::Dataset train("data.train", storage, {}, encoding);
  return std::make_shared<const data::Data>(data::Data{std::move(encoding), std::move(train), std::nullopt});
}

// The loss of a sample is the number of its segments that are kId.
class CountsRegions : public TestHooks {
 public:
  CountsRegions() : TestHooks(TestEntries{}) {}
  bool has(HookEntry entry) const override { return entry == HookEntry::kTrainingStep; }
  StepLosses training_step(const StepInputs& inputs) override {
    const Value segments = inputs.forward.input("segments");
    const Value is_id =
        ops::cast(ops::eq(segments, ops::full_like(segments, static_cast<double>(kId))), backends::DType::kF32);
    const int64_t axis[] = {1};
    const Value outputs = inputs.model->forward(inputs.forward, inputs.features);
    const Value losses = ops::add(ops::sum(is_id, axis), ops::mul(ops::sum(outputs, axis), 0.0));
    return {.losses = losses, .weights = ops::full_like(losses, 1.0), .metrics = {}};
  }
};

double mean_loss(const char* backend) {
  const schema::ReadResult read = schema::read_recipe_text(fmt::format(R"(schema_version: 1
backend: {}
num_processes: 1
model: {{type: linear}}
data: {{train: {{format: synthetic, samples: {}, features: [1], classes: 2}}, batch_size: 4}}
optimizer: {{type: sgd}}
train: {{epochs: 1}}
)",
                                                                       backend, kSamples),
                                                           "recipe.yaml");
  CountsRegions hooks;
  Session session(read.recipe, &hooks, nullptr, with_segments());
  session.trainer.allocate();
  data::Loader loader(session.data.train, session.plan, {});
  for (int64_t step = 0; step < session.length.total_steps; ++step) {
    StepResult result = session.trainer.stepper().run(loader, {});
    session.trainer.stepper().resolve(result);
  }
  return session.trainer.means().take_loss();
}

TEST(ModelInputs, ReachTheStepByName) {
  for (const char* backend : {"cpu", "gpu", "tpu"}) EXPECT_EQ(mean_loss(backend), 1.0) << backend;
}

}  // namespace
}  // namespace runner::train
