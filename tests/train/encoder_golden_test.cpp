// Trainings of encoders against transformers: outputs before the first step, loss and gradient norm of every step, for
// each head, with padding and segments, on every backend and with several ranks.
#include <cmath>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "runner/data/storage.h"
#include "runner/train/loop/evaluator.h"
#include "runner/train/loop/session.h"
#include "schema/recipe/recipe_reader.h"
#include "tests/backends/support/on_threads.h"
#include "tests/golden/golden.h"
#include "tests/support/paths.h"

namespace runner::train {
namespace {

using testing::Golden;
using testing::GoldenTensor;

constexpr double kOutputTolerance = 1e-5, kLossTolerance = 1e-4, kNormTolerance = 1e-4;

data::IdInput input_of(const Golden& inputs, const char* name, int64_t vocabulary) {
  const GoldenTensor ids = inputs[name].tensor();
  data::IdInput input;
  input.input = {name, backends::DType::kI64, {ids.shape[1]}, vocabulary};
  for (const int64_t id : ids.integers) input.ids.push_back(id);
  return input;
}

// The first `samples` samples of a case.
data::SharedData data_of(const Golden& item, int64_t samples) {
  const Golden file = Golden::load("encoders.json");
  const GoldenTensor ids = item["inputs"]["input_ids"].tensor(), labels = item["labels"].tensor();
  const auto storage = std::make_shared<data::Storage>();
  storage->samples = samples;
  storage->feature_shape = {ids.shape[1]};
  storage->vocabulary = file["vocabulary"].integer();
  storage->text.stride = ids.shape[1];
  for (const int64_t id : ids.integers) storage->text.ids.push_back(static_cast<uint32_t>(id));
  storage->more_inputs.push_back(input_of(item["inputs"], "attention_mask", 2));
  storage->more_inputs.push_back(input_of(item["inputs"], "token_type_ids", 3));
  data::Encoding encoding;
  if (labels.values.empty()) {
    storage->label_kind = data::LabelKind::kClass;
    storage->outputs = item["classes"].integer();
    if (labels.shape.rank() == 2) storage->sequence = labels.shape[1];
    for (const int64_t label : labels.integers) storage->classes.push_back(label);
    if (storage->sequence > 0) encoding.ignored_label = encoding.ignore_index = file["ignored"].integer();
  } else {
    storage->label_kind = data::LabelKind::kTarget;
    storage->outputs = labels.shape[1];
    for (const double target : labels.values) storage->targets.push_back(static_cast<float>(target));
  }
  encoding.feature_shape = storage->feature_shape;
  encoding.vocabulary = storage->vocabulary;
  encoding.sequence = storage->sequence;
  for (const data::IdInput& input : storage->more_inputs) encoding.more_inputs.push_back(input.input);
  encoding.label_kind = storage->label_kind;
  encoding.outputs = storage->outputs;
  data::Dataset train("data.train", storage, {}, encoding);
  return std::make_shared<const data::Data>(data::Data{std::move(encoding), std::move(train), std::nullopt});
}

// With products in f32 on every backend.
const std::vector<std::string> kBackends[] = {
    {"backend=cpu"}, {"backend=gpu"}, {"backend=tpu", "num_processes=1", "tpu.matmul_precision=highest"}};

schema::ReadResult recipe_of(const Golden& item, const std::vector<std::string>& overrides) {
  return schema::read_recipe(support::source_path(fmt::format("tests/golden/encoders/{}.yaml", item.name())),
                             overrides);
}

int64_t samples_of(const Golden& item) {
  return item["labels"].tensor().shape[0];
}

std::vector<double> expect_losses(const Golden& item, Session& session) {
  session.trainer.allocate();
  data::Loader loader(session.data.train, session.plan,
                      {.shuffle = session.recipe.data.shuffle, .rank = session.rank(), .prefetch = 0});
  const std::vector<double> losses = item["loss"].numbers(), norms = item["grad_norm"].numbers();
  EXPECT_EQ(session.length.total_steps, std::ssize(losses));
  std::vector<double> got;
  for (size_t i = 0; i < losses.size(); ++i) {
    StepResult result = session.trainer.stepper().run(loader, session.rates());
    session.trainer.stepper().read_counters(result);
    got.push_back(session.trainer.means().take_loss());
    EXPECT_NEAR(got.back(), losses[i], kLossTolerance) << "step " << i + 1;
    EXPECT_NEAR(result.grad_norm, norms[i], kNormTolerance * norms[i]) << "step " << i + 1;
  }
  return got;
}

class EncoderGolden : public ::testing::TestWithParam<const char*> {
 protected:
  Golden item() const { return Golden::load("encoders.json").find(GetParam()); }
};

TEST_P(EncoderGolden, OutputsMatchTransformers) {
  const Golden item = this->item();
  const std::vector<double> want = item["outputs"].tensor().values;
  for (const std::vector<std::string>& backend : kBackends) {
    SCOPED_TRACE(backend.front());
    const schema::ReadResult read = recipe_of(item, backend);
    Session session(read.recipe, nullptr, nullptr, data_of(item, item["outputs"].tensor().shape[0]));
    session.trainer.allocate();
    const Outputs got = Evaluator(session.trainer, session.data.train, read.recipe, nullptr).predict();
    ASSERT_FALSE(got.values.empty());
    EXPECT_TRUE(!got.tokens.empty() || got.values.size() == want.size());
    const auto width = static_cast<size_t>(session.trainer.encoding().outputs);
    const size_t length = want.size() / width / static_cast<size_t>(session.data.train.size());
    for (size_t i = 0; i < got.values.size(); ++i) {
      size_t place = i / width;
      if (!got.tokens.empty())
        place =
            static_cast<size_t>(got.tokens[place].sample) * length + static_cast<size_t>(got.tokens[place].position);
      EXPECT_NEAR(got.values[i], want[place * width + i % width], kOutputTolerance) << i;
    }
  }
}

TEST_P(EncoderGolden, EveryStepMatchesTransformers) {
  const Golden item = this->item();
  std::vector<double> of_cpu;
  for (const std::vector<std::string>& backend : kBackends) {
    SCOPED_TRACE(backend.front());
    const schema::ReadResult read = recipe_of(item, backend);
    Session session(read.recipe, nullptr, nullptr, data_of(item, samples_of(item)));
    const std::vector<double> losses = expect_losses(item, session);
    if (of_cpu.empty()) of_cpu = losses;
    EXPECT_EQ(losses, of_cpu);
  }
}

TEST_P(EncoderGolden, EveryStepMatchesTransformersWithThreeRanks) {
  const Golden item = this->item();
  const schema::ReadResult read = recipe_of(item, {"split_batches=true", "num_processes=3", "threads=1"});
  const data::SharedData data = data_of(item, samples_of(item));
  backends::testing::on_threads(3, [&](backends::SharedMemoryGroup& ranks) {
    SCOPED_TRACE(ranks.rank());
    Session session(read.recipe, nullptr, &ranks, data);
    expect_losses(item, session);
  });
}

INSTANTIATE_TEST_SUITE_P(Heads, EncoderGolden,
                         ::testing::Values("classification", "token_classification", "masked_lm", "regression", "lora",
                                           "none"),
                         [](const auto& of) { return std::string(of.param); });

}  // namespace
}  // namespace runner::train
