// Whole trainings against PyTorch: loss, gradient norm and learning rate of every step, and the final weights, for any
// number of ranks.

#include <cmath>
#include <cstring>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "runner/train/loop/session.h"
#include "schema/recipe/recipe_reader.h"
#include "tests/backends/support/on_threads.h"
#include "tests/golden/golden.h"
#include "tests/support/paths.h"
#include "tests/train/array_values.h"

namespace runner::train {
namespace {

using backends::testing::on_threads;
using testing::Golden;

// Trains step by step, as rank_run.h does.
class SteppedTraining {
 public:
  SteppedTraining(const schema::Recipe& recipe, backends::ProcessGroup* ranks)
      : recipe_(recipe),
        session_(recipe, nullptr, ranks),
        loader_(session_.data.train, session_.plan,
                {.shuffle = recipe.data.shuffle,
                 .seed = session_.data_seed(),
                 .rank = session_.rank(),
                 .prefetch = 0,
                 .augmenter = session_.data.augmenter}) {
    session_.trainer.allocate();
    session_.trainer.step_memory().prepare({.batch = session_.plan.slice(session_.rank(), 0).size()});
  }

  struct Step {
    double loss, grad_norm, lr;
  };

  Step step() {
    StepResult result = session_.trainer.stepper().run(loader_, session_.rates());
    EXPECT_TRUE(result.finite);
    session_.trainer.stepper().read_counters(result);
    scale_ = session_.trainer.loss_scale();
    applied_ = result.applied;
    return {session_.trainer.means().take_loss(), result.grad_norm, result.lr};
  }

  std::vector<float> parameter(const std::string& name) {
    for (const nn::Parameter& parameter : session_.trainer.model().parameters.parameters()) {
      if (parameter.name != name) continue;
      const auto values = array_of<float>(session_.trainer, ArrayRole::kParameters, parameter.buffer);
      const auto first = values.begin() + parameter.offset;
      return {first, first + parameter.elements()};
    }
    ADD_FAILURE() << "no parameter " << name;
    return {};
  }

  // After the last step.
  std::optional<double> scale() const { return scale_; }
  bool applied() const { return applied_; }

  int64_t total_steps() const { return session_.length.total_steps; }
  bool clips() const { return recipe_.train.clip_grad_norm.has_value(); }

 private:
  const schema::Recipe& recipe_;
  Session session_;
  data::Loader loader_;
  std::optional<double> scale_;
  bool applied_ = true;
};

// Another order of summation may cost a small multiple of the rounding of f32.
void expect_pytorchs(const Golden& item, SteppedTraining& training) {
  const std::vector<double> losses = item["loss"].numbers(), norms = item["grad_norm"].numbers();
  const std::vector<double> rates = item["lr"].numbers();
  ASSERT_EQ(training.total_steps(), static_cast<int64_t>(losses.size()));
  const double loss_tolerance = 8 * item["noise"]["loss"].number() + 2e-7;
  for (size_t i = 0; i < losses.size(); ++i) {
    const SteppedTraining::Step step = training.step();
    EXPECT_NEAR(step.loss, losses[i], loss_tolerance) << "step " << i + 1;
    EXPECT_NEAR(step.lr, rates[i], 1e-12 * std::fabs(rates[i])) << "step " << i + 1;
    if (item.has("scale")) {
      EXPECT_EQ(training.scale(), item["scale"].numbers()[i]) << "step " << i + 1;
      EXPECT_EQ(training.applied(), std::isfinite(norms[i])) << "step " << i + 1;
    }
    if (training.clips() && training.applied()) {
      EXPECT_NEAR(step.grad_norm, norms[i], (item.has("scale") ? 2e-3 : 1e-5) * norms[i]) << "step " << i + 1;
    }
  }
  if (!item.has("final")) return;
  for (const std::string& name : item["final"].keys()) {
    const std::vector<float> want = item["final"][name].tensor().as<float>(), got = training.parameter(name);
    ASSERT_EQ(got.size(), want.size()) << name;
    const double tolerance = 10 * item["noise"]["final"].number() + 5e-7;
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], tolerance) << name << " " << i;
  }
}

// A file of cases, and the folder with the recipe of each.
struct Trainings {
  const char *file, *folder;
};
void PrintTo(const Trainings& trainings, std::ostream* out) {
  *out << trainings.file;
}

class TrainingGolden : public ::testing::TestWithParam<Trainings> {
 protected:
  std::vector<Golden> cases() const { return Golden::load(GetParam().file).cases(); }
  schema::ReadResult recipe_of(const Golden& item, const std::vector<std::string>& overrides) const {
    return schema::read_recipe(
        support::source_path(fmt::format("tests/golden/{}/{}.yaml", GetParam().folder, item.name())), overrides);
  }
};

TEST_P(TrainingGolden, EveryStepMatchesPyTorch) {
  for (const Golden& item : cases()) {
    SCOPED_TRACE(item.name());
    const schema::ReadResult read = recipe_of(item, {});
    SteppedTraining training(read.recipe, nullptr);
    expect_pytorchs(item, training);
  }
}

// In f32: with mixed precision the gradients of each rank are rounded, to which one process does not compare.
TEST_P(TrainingGolden, EveryStepMatchesPyTorchWithAnyNumberOfRanks) {
  for (const Golden& item : cases()) {
    for (const int size : {2, 3, 4, 8}) {
      const schema::ReadResult read =
          recipe_of(item, {"split_batches=true", fmt::format("num_processes={}", size), "threads=1"});
      if (read.recipe.mixed_precision != schema::Precision::kNo) continue;
      on_threads(size, [&](backends::SharedMemoryGroup& ranks) {
        SCOPED_TRACE(fmt::format("{}, rank {} of {}", item.name(), ranks.rank(), size));
        SteppedTraining training(read.recipe, &ranks);
        expect_pytorchs(item, training);
      });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, TrainingGolden, ::testing::Values(Trainings{"training.json", "training"}));
INSTANTIATE_TEST_SUITE_P(MixedImages, TrainingGolden, ::testing::Values(Trainings{"mixup.json", "mixup"}));
INSTANTIATE_TEST_SUITE_P(LanguageModels, TrainingGolden,
                         ::testing::Values(Trainings{"language_models.json", "language"}));

}  // namespace
}  // namespace runner::train
