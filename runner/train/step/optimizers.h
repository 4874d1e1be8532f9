// Which rule updates which parameters: the recipe's optimizer, or those of a hook.
#pragma once

#include <string>
#include <vector>

#include "runner/data/encoding.h"
#include "runner/nn/models.h"
#include "runner/optim/update_rules.h"
#include "schema/recipe.h"
#include "schema/source_mark.h"

namespace runner::train {

class Hooks;  // hooks.h

// The parameters that one rule updates.
struct OptimizerGroup {
  int32_t optimizer = 0;  // index of Optimizers::names
  std::vector<std::string> params;
  optim::Rule rule;      // under the recipe's schedule
  SourceMark line = {};  // of the hook that made it
};

struct Optimizers {
  std::vector<std::string> names;      // of the optimizers that a loop steps; "" for one without
  std::vector<OptimizerGroup> groups;  // by the numbers that ParameterSet::lay_out gives

  double lr = 0;  // before the schedule: the recipe's, or that of the hook's first optimizer

  const optim::Rule& rule(int32_t group) const { return groups[static_cast<size_t>(group)].rule; }
  // Marks a number of a group's update with whose it is, as far as there are several.
  void mark_owner(backends::TracedScalar& number, const OptimizerGroup& group) const;
};

// The recipe's: one optimizer with its groups, the last of which has no patterns and takes what is left.
Optimizers optimizers_of(const schema::Recipe& recipe);

// Lays the parameters out in buffers by group.  Throws Error(kRecipe) where a pattern matches nothing, a group is left
// without parameters, or a parameter that is not frozen has no group.
void lay_out(nn::ParameterSet& parameters, const schema::Recipe& recipe, const Optimizers& optimizers);

// The recipe's, or those of the hook (null: there is none); lays the model out for them.
Optimizers make_optimizers(const schema::Recipe& recipe, const data::Encoding& encoding, Hooks* hooks,
                           nn::Model& model);

}  // namespace runner::train
