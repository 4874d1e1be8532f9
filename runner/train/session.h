// Everything that a recipe turns into before the first step: data, plan, device, model, schedule.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "runner/data/load.h"
#include "runner/data/plan.h"
#include "runner/optim/lr_schedule.h"
#include "runner/train/trainer.h"
#include "schema/recipe.h"

namespace runner::train {

// The size of a run, for schedules and intervals.
optim::RunScale run_scale(const schema::Recipe& recipe, const data::DataPlan& plan);

struct Session {
  // Reads the data and lays the model out; Trainer::allocate() gives it memory.  Throws Error(kRecipe) or Error(kData).
  // Recipe, hooks (null: none) and replicas (null: this is the only one) must outlive the session.
  explicit Session(const schema::Recipe& recipe, Hooks* hooks = nullptr, backends::Collectives* ranks = nullptr);

  const schema::Recipe& recipe;
  data::Data data;
  data::DataPlan plan;
  optim::RunScale scale;
  std::unique_ptr<backends::Device> device;
  Trainer trainer;
  optim::LrSchedule schedule;

  backends::Collectives* const ranks;
  int64_t rank() const { return ranks != nullptr ? ranks->rank() : 0; }
  // A number as rank 0 has it: what decides must be the same for all replicas.
  double of_main(double value) const;
  uint64_t data_seed() const;
  // Fingerprints of the data, made when first asked for.
  const std::string& train_fingerprint();
  const std::string& eval_fingerprint();  // empty: no eval data

 private:
  std::string train_fingerprint_, eval_fingerprint_;
};

}  // namespace runner::train
