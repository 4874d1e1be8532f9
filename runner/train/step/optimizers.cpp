#include "runner/train/step/optimizers.h"

#include <algorithm>

#include <fmt/format.h>

#include "runner/optim/bf16_warnings.h"
#include "runner/train/step/device_rules.h"
#include "runner/train/step/step_hooks.h"
#include "schema/base/error.h"

namespace runner::train {

void Optimizers::mark_owner(backends::TracedScalar& number, const OptimizerGroup& group) const {
  if (names.size() > 1) number.optimizer = group.optimizer + 1;
  const bool has_groups = std::ranges::count(groups, group.optimizer, &OptimizerGroup::optimizer) > 1;
  if (has_groups) number.group = static_cast<int32_t>(&group - groups.data()) + 1;
}

void Optimizers::set_length(const schema::TrainSpec& train, const optim::RunLength& run) {
  if (!train.swa) return;
  for (OptimizerGroup& group : groups) {
    group.rule.average->start = optim::to_steps(train.swa->start, run);
    group.rule.average->every = optim::to_steps(train.swa->every, run);
  }
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

nn::Model make_model(const schema::Recipe& recipe, const data::Encoding& encoding, StepHooks* hooks) {
  check_agreement(recipe, hooks);
  const bool of_hook = has(hooks, HookEntry::kModel);
  if (!of_hook) nn::check_model(recipe.model, encoding, has(hooks, HookEntry::kTrainingStep));
  RUN_CHECK(!has(hooks, HookEntry::kTransform) || !encoding.has_tokens(), ErrorKind::kRecipe,
            "`transform` of a hook changes numbers, but data.train is text; remove it");
  return of_hook ? hooks->model(encoding) : nn::build_model(recipe.model, encoding);
}

namespace {

std::optional<optim::WeightAverage> average_of(const schema::TrainSpec& train) {
  if (train.ema) return optim::WeightAverage{.decay = train.ema->decay};
  if (train.swa) return optim::WeightAverage{};
  return std::nullopt;
}

void check_slots(const optim::Rule& rule) {
  const std::vector<optim::Slot> slots = optim::slots(rule);
  RUN_CHECK(std::ranges::count(slots, optim::kAverageSlot, &optim::Slot::name) <= 1, ErrorKind::kRecipe,
            "the update rule has a slot named {}, as that of train.ema and train.swa; rename it", optim::kAverageSlot);
}

}  // namespace

Optimizers make_optimizers(const schema::Recipe& recipe, const data::Encoding& encoding, StepHooks* hooks,
                           nn::Model& model) {
  const bool of_hook = has(hooks, HookEntry::kOptimizers);
  Optimizers optimizers = of_hook ? hooks->optimizers(model, encoding) : optimizers_of(recipe);
  for (OptimizerGroup& group : optimizers.groups) group.rule.average = average_of(recipe.train);
  try {
    for (const OptimizerGroup& group : optimizers.groups) check_slots(group.rule);
    lay_out(model.parameters, recipe, optimizers);
  } catch (const Error& error) {
    if (!of_hook) throw;
    throw Error(error).locate(hooks->line_of(HookEntry::kOptimizers));
  }
  return optimizers;
}

std::vector<std::string> hook_optimizer_warnings(const schema::Recipe& recipe, const Optimizers& optimizers) {
  std::vector<std::string> warnings;
  if (!rounds_to_bf16(recipe)) return warnings;
  for (const OptimizerGroup& group : optimizers.groups)
    for (const optim::NumberWarning& warning :
         optim::number_warnings_in_bf16(group.rule.type, group.rule.hyper, recipe.scheduler.type))
      warnings.push_back(fmt::format("{}: {}{}", group.line.to_string(), warning.key, warning.text));
  return warnings;
}

}  // namespace runner::train
