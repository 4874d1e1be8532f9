// A short run of a small model, with three ranks unless a test asks for another number.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "runner/data/loader.h"
#include "runner/train/loop/session.h"
#include "schema/recipe/recipe_reader.h"
#include "tests/support/temp_folder.h"

namespace runner::train {

class SmallRun : public ::testing::Test {
 protected:
  // `hidden`: widths of the hidden layers, "40, 24".
  explicit SmallRun(std::string_view hidden) {
    support::write_text("r.yaml", fmt::format(R"(schema_version: 1
seed: 3
num_processes: 3
threads: 1
model: {{type: mlp, hidden: [{}]}}
data:
  train: {{format: synthetic, samples: 61, features: [10], classes: 3}}
  batch_size: 4
optimizer: {{type: adamw, lr: 0.01}}
train: {{epochs: 2, clip_grad_norm: 1.0}}
)",
                                              hidden));
  }

  static schema::Recipe recipe(const std::vector<std::string>& overrides = {}) {
    return schema::read_recipe("r.yaml", overrides).recipe;
  }

  // Trains for one and a half epochs of optimizer steps. Returns all parameters. Collective; call it after
  // Trainer::allocate().
  static std::vector<std::byte> trained(Session& session, backends::ProcessGroup& ranks) {
    data::Loader loader(session.data.train, session.plan, {.seed = session.data_seed(), .rank = session.rank()});
    const int64_t steps = session.plan.optimizer_steps(1) * 3 / 2;
    for (int64_t step = 0; step < steps; ++step)
      session.trainer.stepper().run(loader, {.factor = session.schedule.factor(step)});
    std::vector<std::byte> parameters;
    ranks.barrier({"trained"});
    for (size_t i = 0; i < session.trainer.layout().arrays().size(); ++i) {
      if (session.trainer.layout().arrays()[i].role != ArrayRole::kParameters) continue;
      const std::vector<std::byte> array = session.trainer.arrays().read(static_cast<int32_t>(i));
      parameters.insert(parameters.end(), array.begin(), array.end());
    }
    ranks.barrier({"read"});
    return parameters;
  }

 private:
  const support::TempFolder folder_;
  const support::CurrentFolder inside_{folder_.path()};
};

}  // namespace runner::train
