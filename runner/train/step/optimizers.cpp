#include "runner/train/step/optimizers.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

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

// A group of the recipe and the settings in which its parameters differ.
struct Part {
  int32_t group;
  int64_t distance;  // from the outputs, with layer_decay
  bool decays;
  auto operator<=>(const Part&) const = default;
};

// Throws if a group's own weight decay applies to no parameter.
void check_decay(const schema::OptimizerSpec& spec, const std::set<int32_t>& decaying) {
  for (int32_t i = 0; i < std::ssize(spec.groups); ++i) {
    const double decay = spec.groups[static_cast<size_t>(i)].hyper.weight_decay;
    RUN_CHECK(decay == 0 || decay == spec.hyper.weight_decay || decaying.contains(i), ErrorKind::kRecipe,
              "optimizer.groups[{}].weight_decay has no effect: the group has only biases and norms, which "
              "optimizer.no_decay keeps from decay; remove one of the two",
              i);
  }
}

bool divides_groups(const schema::OptimizerSpec& spec) {
  return spec.no_decay != schema::NoDecay::kNone || spec.layer_decay != 1;
}

// Divides the groups, to which the parameters are assigned, so that all parameters of a group have the same settings.
void divide_groups(Optimizers& optimizers, const schema::Recipe& recipe, const nn::ParameterSet& parameters) {
  const schema::OptimizerSpec& spec = recipe.optimizer;
  const bool has_no_decay = spec.no_decay != schema::NoDecay::kNone;
  std::vector<OptimizerGroup> divided;
  std::map<Part, size_t> places;
  std::set<int32_t> decaying;
  for (int32_t g = 0; g < std::ssize(optimizers.groups); ++g)
    for (const nn::Parameter& parameter : parameters.parameters()) {
      if (parameters.buffers()[static_cast<size_t>(parameter.buffer)].group != g) continue;
      const Part part{.group = g,
                      .distance = spec.layer_decay == 1 ? 0 : nn::distance_from_outputs(recipe.model, parameter.name),
                      .decays = !has_no_decay || parameter.role == nn::ParameterRole::kWeight};
      if (part.decays) decaying.insert(g);
      const auto [place, is_new] = places.try_emplace(part, divided.size());
      if (is_new) {
        divided.push_back(optimizers.groups[static_cast<size_t>(g)]);
        divided.back().params.clear();
        schema::OptimizerHyper& hyper = divided.back().rule.hyper;
        hyper.lr *= std::pow(spec.layer_decay, part.distance);
        if (!part.decays) hyper.weight_decay = 0;
      }
      divided[place->second].params.push_back(parameter.name);
    }
  check_decay(spec, decaying);
  optimizers.groups = std::move(divided);
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
    if (!of_hook && divides_groups(recipe.optimizer)) {
      divide_groups(optimizers, recipe, model.parameters);
      lay_out(model.parameters, recipe, optimizers);
    }
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
