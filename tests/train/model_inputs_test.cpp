// Inputs of a model reach the step of a training: those in addition to the features by name, on the CPU and on a GPU,
// where ids stay integers, and tokens with one label per sample.
#include <gtest/gtest.h>

#include "runner/data/storage.h"
#include "runner/train/loop/evaluator.h"
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

void train(Session& session) {
  session.trainer.allocate();
  data::Loader loader(session.data.train, session.plan, {});
  for (int64_t step = 0; step < session.length.total_steps; ++step) {
    StepResult result = session.trainer.stepper().run(loader, {});
    session.trainer.stepper().resolve(result);
  }
}

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
  train(session);
  return session.trainer.means().take_loss();
}

TEST(ModelInputs, ReachTheStepByName) {
  for (const char* backend : {"cpu", "gpu", "tpu"}) EXPECT_EQ(mean_loss(backend), 1.0) << backend;
}

// Windows of two tokens of one text. The class of a window is whether its tokens are equal.
data::SharedData with_tokens() {
  const auto storage = std::make_shared<data::Storage>();
  storage->text = {.ids = {0, 0, 2, 1, 1, 1, 2, 2, 0, 1, 0, 2}, .stride = 2};
  storage->samples = kSamples;
  storage->feature_shape = {2};
  storage->vocabulary = 3;
  storage->label_kind = data::LabelKind::kClass;
  storage->outputs = 2;
  for (size_t i = 0; i < kSamples; ++i)
    storage->classes.push_back(storage->text.ids[2 * i] == storage->text.ids[2 * i + 1]);
  data::Encoding encoding;
  encoding.feature_shape = {2};
  encoding.vocabulary = 3;
  encoding.label_kind = data::LabelKind::kClass;
  encoding.outputs = 2;
  data::Dataset train("data.train", storage, {}, encoding);
  return std::make_shared<const data::Data>(data::Data{std::move(encoding), std::move(train), std::nullopt});
}

// A model of tokens with outputs per sample.
class TokenModel : public TestHooks {
 public:
  TokenModel() : TestHooks(TestEntries{}) {}
  bool has(HookEntry entry) const override { return entry == HookEntry::kModel; }
  nn::Model model(const data::Encoding& encoding) override {
    nn::Model model{
        .module = nn::sequential({nn::embedding(encoding.vocabulary, 8), nn::flatten(), nn::linear(16, 32),
                                  nn::activation(schema::Activation::kRelu), nn::linear(32, encoding.outputs)}),
        .parameters = {}};
    model.module->declare(model.parameters, "");
    return model;
  }
};

TEST(ModelInputs, TokensMayHaveOneLabelPerSample) {
  const schema::ReadResult read = schema::read_recipe_text(R"(schema_version: 1
model: {type: hook}
hooks: model.lua
data: {train: {format: text, path: none.txt, sequence_length: 2}, batch_size: 6}
optimizer: {type: adam, lr: 0.05}
train: {epochs: 100}
)",
                                                           "recipe.yaml");
  TokenModel hooks;
  Session session(read.recipe, &hooks, nullptr, with_tokens());
  train(session);
  Evaluator evaluator(session.trainer, session.data.train, read.recipe, nullptr);
  EXPECT_EQ(evaluator.run().at("accuracy"), 1.0);
  EXPECT_EQ(evaluator.predict().values.size(), 2 * kSamples);
}

}  // namespace
}  // namespace runner::train
