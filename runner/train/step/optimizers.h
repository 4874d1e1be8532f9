// Assigns update rules to parameters: the recipe's optimizer, or the optimizers of a hook.
#pragma once

#include <string>
#include <vector>

#include "runner/data/encoding.h"
#include "runner/model/models.h"
#include "runner/optim/lr_schedule.h"
#include "runner/optim/update_rules.h"
#include "runner/train/step/counters.h"
#include "schema/base/source_mark.h"
#include "schema/recipe/recipe.h"

namespace runner::train {

class StepHooks;  // step_hooks.h

// The parameters that one rule updates.
struct OptimizerGroup {
  int32_t optimizer = 0;  // index into Optimizers::names
  std::vector<std::string> params;
  optim::Rule rule;      // under the recipe's schedule
  SourceMark line = {};  // hook line that made it
};

struct Optimizers {
  std::vector<std::string> names;      // of the optimizers that a training loop steps; "" for a single unnamed one
  std::vector<OptimizerGroup> groups;  // indexed by the numbers that ParameterSet::lay_out assigns

  // Sets from which update on, and how often, weights are averaged (train.swa), for a run of this length.
  void set_length(const schema::TrainSpec& train, const optim::RunLength& run);

  double lr = 0;  // before the schedule: the recipe's learning rate, or that of the hook's first optimizer

  const std::string& name_of(const OptimizerGroup& group) const { return names[static_cast<size_t>(group.optimizer)]; }
  // Number of updates of a group's optimizer so far.
  int64_t updates_of(const Counters& counters, const OptimizerGroup& group) const {
    return counters.updates_of(name_of(group));
  }
  const optim::Rule& rule(int32_t group) const { return groups[static_cast<size_t>(group)].rule; }
  // Sets the optimizer and the group of a scalar, if there are several.
  void mark_owner(backends::TracedScalar& number, const OptimizerGroup& group) const;
};

// Returns the recipe's optimizer with its groups. The last group has no patterns and takes the remaining parameters.
Optimizers optimizers_of(const schema::Recipe& recipe);

// Lays the parameters out in buffers by group. Throws Error(kRecipe) if a pattern matches nothing, a group has no
// parameters, or a parameter that is not frozen has no group.
void lay_out(nn::ParameterSet& parameters, const schema::Recipe& recipe, const Optimizers& optimizers);

// Returns the recipe's model or that of the hook. `hooks`: null if there is no hook; a hook makes its model only once.
// Throws Error(kRecipe) or Error(kRun) if the hook contradicts the recipe, or the model does not fit the data.
nn::Model make_model(const schema::Recipe& recipe, const data::Encoding& encoding, StepHooks* hooks);

// Returns the recipe's optimizers or those of the hook, and lays out the model for them. `hooks`: null if there is no
// hook.
Optimizers make_optimizers(const schema::Recipe& recipe, const data::Encoding& encoding, StepHooks* hooks,
                           nn::Model& model);

// Returns warnings about the optimizers of a hook: numbers that bf16 rounds to 1 or 0, if the device keeps f32 as bf16.
// start_warnings() (loop/start_warnings.h) returns those about the optimizer of a recipe.
std::vector<std::string> hook_optimizer_warnings(const schema::Recipe& recipe, const Optimizers& optimizers);

}  // namespace runner::train
