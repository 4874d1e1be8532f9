#include "runner/train/engine/optimizers.h"

#include <algorithm>

#include "runner/optim/lr_schedule.h"
#include "runner/train/engine/hooks.h"
#include "schema/base/error.h"

namespace runner::train {

void Optimizers::mark_owner(backends::TracedScalar& number, const OptimizerGroup& group) const {
  if (names.size() > 1) number.optimizer = group.optimizer + 1;
  const bool has_groups = std::ranges::count(groups, group.optimizer, &OptimizerGroup::optimizer) > 1;
  if (has_groups) number.group = static_cast<int32_t>(&group - groups.data()) + 1;
}

Optimizers optimizers_of(const schema::Recipe& recipe) {
  const schema::OptimizerSpec& spec = recipe.optimizer;
  Optimizers optimizers{.names = {""}, .groups = {}, .lr = spec.hyper.lr};
  const auto add = [&](std::vector<std::string> params, const schema::OptimizerHyper& hyper) {
    optimizers.groups.push_back(
        {0, std::move(params), {spec.type, optim::under_schedule(hyper, recipe.scheduler)}, {}});
  };
  for (const schema::ParameterGroup& group : spec.groups) add(group.params, group.hyper);
  add({}, spec.hyper);
  return optimizers;
}

void lay_out(nn::ParameterSet& parameters, const schema::Recipe& recipe, const Optimizers& optimizers) {
  std::vector<std::vector<std::string>> patterns;
  for (const OptimizerGroup& group : optimizers.groups)
    if (!group.params.empty()) patterns.push_back(group.params);
  parameters.lay_out(recipe.model.freeze, patterns);
  const auto groups = static_cast<int32_t>(optimizers.groups.size());
  for (const nn::Parameter& parameter : parameters.parameters())
    RUN_CHECK(parameters.buffers()[static_cast<size_t>(parameter.buffer)].group < groups, ErrorKind::kRecipe,
              "no optimizer of the hook updates parameter {}; add it to an optimizer or to model.freeze",
              parameter.name);
}

Optimizers make_optimizers(const schema::Recipe& recipe, const data::Encoding& encoding, Hooks* hooks,
                           nn::Model& model) {
  const bool of_hook = has(hooks, HookEntry::kOptimizers);
  Optimizers optimizers = of_hook ? hooks->optimizers(model, encoding) : optimizers_of(recipe);
  try {
    lay_out(model.parameters, recipe, optimizers);
  } catch (const Error& error) {
    if (!of_hook) throw;
    throw Error(error).locate(hooks->line_of(HookEntry::kOptimizers));
  }
  return optimizers;
}

}  // namespace runner::train
