// The trainer only executes Plans: everything that a step computes comes from the Programs given to the device.
//
// Shown with a device that records all calls. An optimizer step is one execution per micro-batch plus reads of results,
// and replaying the record op by op, without a plan, gives every bit that training reported and kept.

#include <array>
#include <filesystem>
#include <fstream>
#include <set>

#include <gtest/gtest.h>

#include "backends/exec/cpu_device.h"
#include "runner/train/loop/session.h"
#include "runner/train/run/checkpoint/sections.h"
#include "schema/recipe/recipe_reader.h"
#include "tests/backends/support/op_by_op_device.h"
#include "tests/support/bytes.h"
#include "tests/support/paths.h"
#include "tests/train/recording_device.h"
#include "tests/train/run_fixture.h"

namespace runner::train {
namespace {

// An epoch has four batches, the last one of 3 samples, in optimizer steps of three batches and one.
const std::string kPlansOnly = R"(schema_version: 1
name: plans
seed: 5
gradient_accumulation_steps: 3
model: {type: mlp, hidden: [12, 9], activation: gelu, layer_norm: true, dropout: 0.25}
data: {train: {format: synthetic, samples: 27, features: [6], classes: 4}, batch_size: 8, normalize: standard}
optimizer:
  type: adamw
  lr: 0.02
  amsgrad: true
  groups:
    - {params: ["*.bias"], weight_decay: 0, lr: 0.01}
scheduler: {type: one_cycle, max_lr: 0.05}
train: {epochs: 3, clip_grad_norm: 0.5}
log: {every: 1 step}
)";
constexpr size_t kPlannedBatches = 12, kShapes = 4;

template <class T>
T value_of(const Bytes& bytes) {
  T value{};
  EXPECT_EQ(bytes.size(), sizeof value);
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

// Uses a trainer like rank_run.h does, on a given device.
class RecordedTraining {
 public:
  explicit RecordedTraining(const schema::Recipe& recipe)
      : data_(data::load(recipe.data, static_cast<uint64_t>(recipe.seed), data::labels_as(recipe.train))),
        plan_(data::train_plan(recipe, data_.train.size())),
        scale_(run_length(recipe, plan_)),
        schedule_(recipe.scheduler, recipe.optimizer.hyper.lr, scale_),
        trainer_(recipe, data_.encoding, modelled_),
        loader_(data_.train, plan_,
                {.shuffle = recipe.data.shuffle, .seed = static_cast<uint64_t>(recipe.seed), .prefetch = 0}) {
    trainer_.allocate();
  }

  StepResult result() {
    const int64_t scheduled = trainer_.counters.scheduled;
    return trainer_.stepper().run(loader_,
                                  {.factor = schedule_.factor(scheduled), .momentum = schedule_.momentum(scheduled)});
  }

  // The tensor sections of a checkpoint.
  std::map<std::string, Bytes> tensors() {
    store::StateSnapshot snapshot;
    Checkpoint state;
    state.encoding = data_.encoding;
    capture(trainer_, state, snapshot);
    std::map<std::string, Bytes> sections;
    for (const store::SectionView& section : snapshot.sections())
      if (section.name != "run") sections[std::string(section.name)] = {section.bytes.begin(), section.bytes.end()};
    return sections;
  }

  int64_t steps() const { return scale_.total_steps; }
  const data::Dataset& dataset() const { return data_.train; }
  RecordingDevice& device() { return *device_; }
  Trainer& trainer() { return trainer_; }

 private:
  const data::Data data_;
  const data::DataPlan plan_;
  const optim::RunLength scale_;
  const optim::LrSchedule schedule_;
  const std::shared_ptr<RecordingDevice> device_ = std::make_shared<RecordingDevice>(backends::make_cpu_device(2));
  backends::ModelledDevice modelled_{device_};
  Trainer trainer_;
  data::Loader loader_;
};

class PlansOnly : public RunFixture {
 protected:
  void expect_plans_only(const std::vector<std::string>& overrides);
};

// Calls since event `first`.
std::vector<Call> calls_since(const RecordingDevice& device, size_t first) {
  std::vector<Call> calls;
  for (size_t i = first; i < device.events().size(); ++i)
    if (device.events()[i].call != Call::kCompile) calls.push_back(device.events()[i].call);
  return calls;
}

// Inputs of a step from the host are only data and a few rates: the rows of the samples as in the data set.
void expect_batch_is_data(const data::Dataset& dataset, const Event& submission) {
  ASSERT_EQ(submission.batch.size(), size_t{1 + kBatchInputCount});
  const std::vector<int64_t> ids = support::numbers_of<int64_t>(submission.batch[1 + kSampleIds]);
  std::vector<float> features(ids.size() * static_cast<size_t>(dataset.feature_shape().elements()));
  dataset.gather_features(ids, features);
  const auto bytes = std::as_bytes(std::span(features));
  EXPECT_TRUE(std::ranges::equal(submission.batch[0], bytes));
}

void PlansOnly::expect_plans_only(const std::vector<std::string>& overrides) {
  SCOPED_TRACE(overrides.empty() ? "as written" : overrides[0]);
  ASSERT_EQ(train(kPlansOnly, {.overrides = overrides}).exit_code, 0);
  const auto losses = points("train/loss"), norms = points("train/grad_norm");

  const schema::ReadResult read = schema::read_recipe(path("recipe.yaml").string(), overrides);
  RecordedTraining training(read.recipe);
  RecordingDevice& device = training.device();
  ASSERT_EQ(losses.size(), static_cast<size_t>(training.steps()));
  size_t batches = 0;
  for (size_t step = 0; step < losses.size(); ++step) {
    SCOPED_TRACE("step " + std::to_string(step + 1));
    const size_t first = device.events().size();
    const StepResult result = training.result();
    const size_t micro_batches = step % 2 == 0 ? 3 : 1;
    batches += micro_batches;
    std::vector<Call> expected;
    for (size_t i = 0; i < micro_batches; ++i) expected.insert(expected.end(), {Call::kSubmit, Call::kWait});
    expected.insert(expected.end(), {Call::kReadOutput, Call::kReadOutput});
    EXPECT_EQ(calls_since(device, first), expected);
    for (size_t i = first; i < device.events().size(); ++i)
      if (device.events()[i].call == Call::kSubmit) expect_batch_is_data(training.dataset(), device.events()[i]);

    // What is reported is what was read, bit by bit, and so is the run's record.
    EXPECT_EQ(result.finite, value_of<bool>(device.events().end()[-2].bytes));
    EXPECT_EQ(result.grad_norm, value_of<float>(device.events().back().bytes));
    EXPECT_EQ(result.grad_norm, norms[step].second);
    const size_t log = device.events().size();
    const double loss = training.trainer().means().take_loss();
    EXPECT_EQ(calls_since(device, log), (std::vector{Call::kRead, Call::kWrite}));
    using LossAndWeight = std::array<double, 2>;
    const auto sums = value_of<LossAndWeight>(device.events()[log].bytes);
    EXPECT_EQ(loss, sums[0] / sums[1]);
    EXPECT_EQ(loss, losses[step].second);
    EXPECT_EQ(value_of<LossAndWeight>(device.events()[log + 1].bytes), LossAndWeight{});
  }
  EXPECT_EQ(batches, kPlannedBatches);
  EXPECT_EQ(std::ranges::count(device.events(), Call::kCompile, &Event::call), static_cast<int64_t>(kShapes));

  auto stored = last_state();
  stored.erase("run");
  EXPECT_EQ(training.tensors(), stored);

  backends::testing::OpByOpDevice op_by_op;
  const std::vector<size_t> differing = device.replay(op_by_op);
  EXPECT_TRUE(differing.empty()) << differing.size() << " reads differ, first event " << differing[0];
}

TEST_F(PlansOnly, InF32) {
  expect_plans_only({});
}
TEST_F(PlansOnly, InBf16) {
  expect_plans_only({"mixed_precision=bf16"});
}
TEST_F(PlansOnly, SkippingStepsThatAreNotFinite) {
  expect_plans_only({"train.on_nan=skip"});
}
TEST_F(PlansOnly, WithAnotherOptimizer) {
  expect_plans_only(
      {"optimizer.type=sgd", "optimizer.amsgrad=false", "optimizer.nesterov=true"});  // one_cycle needs momentum
}

// runner/train cannot run kernels: it includes neither them nor the Plans that contain them.
TEST(Train, IncludesNeitherKernelsNorPlans) {
  // Names of kernels, for the record, the interface of devices, and the cache of compiled steps of any kind.
  const std::set<std::string> harmless = {"backends/kernels/kernel_choices.h", "backends/exec/backend.h",
                                          "backends/exec/cpu_device.h", "backends/exec/plan_cache.h"};
  size_t files = 0, includes = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(support::source_path("runner/train"))) {
    if (!file.is_regular_file()) continue;
    std::ifstream lines(file.path());
    ++files;
    for (std::string line; std::getline(lines, line);) {
      constexpr std::string_view kStart = "#include \"backends/";
      if (!line.starts_with(kStart)) continue;
      ++includes;
      const std::string name = line.substr(10, line.rfind('"') - 10);
      const bool runs = name.starts_with("backends/kernels/") || name.starts_with("backends/exec/");
      EXPECT_TRUE(!runs || harmless.contains(name)) << file.path().filename() << " includes " << name;
    }
  }
  EXPECT_GT(files, 80u);
  EXPECT_GT(includes, 5u);
}

}  // namespace
}  // namespace runner::train
