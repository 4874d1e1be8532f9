// Memory estimates for several processes, against what the ranks then use; on threads.
#include "runner/train/loop/step_estimate.h"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "runner/train/loop/session.h"
#include "schema/recipe/recipe_reader.h"
#include "tests/backends/support/on_threads.h"
#include "tests/train/run_fixture.h"

namespace runner::train {
namespace {

using backends::SharedMemoryGroup;
using backends::testing::on_threads;

constexpr int kRanks = 3;

class MemoryUseTest : public RunFixture {
 protected:
  schema::ReadResult recipe(std::vector<std::string> overrides) {
    write("recipe.yaml", kFourEpochs);
    overrides.insert(overrides.end(), {fmt::format("num_processes={}", kRanks), "threads=1"});
    return schema::read_recipe(path("recipe.yaml").string(), overrides);
  }

  // Memory of rank 0 after an epoch. The other ranks differ only in what rank 0 alone reduces.
  static MemoryUse used(const schema::Recipe& recipe) {
    MemoryUse used;
    on_threads(kRanks, [&](SharedMemoryGroup& ranks) {
      Session session(recipe, nullptr, &ranks);
      session.trainer.allocate();
      data::Loader loader(session.data.train, session.plan, {.seed = session.data_seed(), .rank = session.rank()});
      for (int64_t step = 0; step < session.plan.optimizer_steps(1); ++step)
        session.trainer.stepper().run(loader, {.factor = session.schedule.factor(step)});
      if (ranks.rank() == 0) used = session.trainer.memory();
    });
    return used;
  }

  // Bytes of one rank's arrays that have one of the roles.
  static int64_t bytes_of(const schema::Recipe& recipe, const std::vector<ArrayRole>& roles) {
    const Session session(recipe);
    const nn::Model& model = session.trainer.model();
    const DeviceLayout layout(model.parameters, session.trainer.optimizers(), /*keeps_gradients=*/true, {},
                              recipe.comm);
    int64_t bytes = 0;
    for (const DeviceArray& array : layout.arrays())
      if (std::ranges::find(roles, array.role) != roles.end()) bytes += static_cast<int64_t>(array.type.bytes());
    return bytes;
  }

  static StepEstimate estimate(const schema::Recipe& recipe) {
    const Session session(recipe);
    return estimate_steps(recipe, session.data, session.plan, *session.device, nullptr);
  }
};

TEST_F(MemoryUseTest, IsEstimatedForAllProcesses) {
  const std::vector<ArrayRole> together{ArrayRole::kParameters, ArrayRole::kSlot, ArrayRole::kCompression};
  const struct {
    std::vector<std::string> overrides;
    bool alone;  // each rank has its own weights
  } cases[] = {
      {{}, false},
      {{"gradient_accumulation_steps=2"}, false},
      {{"gradient_accumulation_steps=3"}, false},
      {{"gradient_accumulation_steps=2", "data.batch_size=50"}, false},  // optimizer steps of one batch
      {{"train.clip_grad_norm=1"}, false},
      {{"comm.hook=power_sgd", "comm.start=2"}, false},
      {{"train.local_sgd={every: 2 steps}"}, true},
      {{"train.local_sgd={every: 2 steps}", "gradient_accumulation_steps=2"}, true},
  };
  for (const auto& [overrides, alone] : cases) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(overrides, " ")));
    const schema::ReadResult read = recipe(overrides);
    const StepEstimate estimated = estimate(read.recipe);
    const MemoryUse had = used(read.recipe);
    EXPECT_EQ(estimated.training.resident(), had.resident());
    EXPECT_EQ(estimated.training.activations, had.activations);
    const int64_t common = alone ? 0 : bytes_of(read.recipe, together);
    EXPECT_EQ(estimated.all_processes, common + kRanks * (had.total() - common));
  }
}

TEST(StepEstimate, KnowsWhetherAnEvaluationPrecedesEachCheckpoint) {
  const std::pair<const char*, bool> cases[] = {
      {"eval: {every: 2 steps}", true},  // the only checkpoint is the last one
      {"eval: {every: 2 steps}\ncheckpoint: {every: 2 steps}", true},
      {"eval: {every: 2 steps}\ncheckpoint: {every: 6 steps}", true},
      {"eval: {every: 2 steps}\ncheckpoint: {every: 3 steps}", false},
      {"eval: {every: 4 steps}\ncheckpoint: {every: 2 steps}", false},
      {"eval: {every: 1 epoch}\ncheckpoint: {every: 2 steps}", false},
      {"eval: {every: 1 epoch}\ncheckpoint: {every: 3 epochs}", true},
      {"eval: {every: 0.5 epochs}\ncheckpoint: {every: 1 epoch}", false},  // counted in other parts of an epoch
  };
  for (const auto& [text, expected] : cases) {
    const auto read = schema::read_recipe_text(fmt::format(R"(schema_version: 1
model: {{type: linear}}
data: {{train: {{format: csv, path: d.csv}}, batch_size: 4, split: {{eval: 0.3}}}}
train: {{epochs: 3}}
optimizer: {{type: sgd, lr: 0.1}}
{}
)",
                                                           text),
                                               "r.yaml");
    EXPECT_EQ(saves_after_evaluations(read.recipe), expected) << text;
  }
}

}  // namespace
}  // namespace runner::train
