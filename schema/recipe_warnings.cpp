#include "schema/recipe_warnings.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "schema/metric_names.h"

namespace runner::schema {
namespace {

bool differs_from_default(const ReadResult& recipe, const Leaf& leaf) {
  return leaf.origin != OriginKind::kDefault && !(leaf.value == recipe.default_of(*leaf.field));
}

std::string without_effect(const Leaf& leaf, std::string_view why) {
  return fmt::format("{}: {} has no effect: {}", leaf.mark.to_string(), leaf.path, why);
}

// How far a layer wins over others.
int rank(OriginKind origin) {
  switch (origin) {
    case OriginKind::kDefault: return 0;
    case OriginKind::kInclude: return 1;
    case OriginKind::kCommandLine: return 3;
    default: return 2;  // the recipe, and ${env:…} in it
  }
}

// A section that names another metric than the one below it does not take the mode back that was meant for that one:
// sections merge key by key.  Nobody wrote the two beside each other.
void warn_of_mode(const ReadResult& recipe, std::string_view section, std::vector<std::string>& warnings) {
  const Leaf* const metric = recipe.find(fmt::format("{}.metric", section));
  const Leaf* const mode = recipe.find(fmt::format("{}.mode", section));
  if (metric == nullptr || mode == nullptr || rank(metric->origin) <= rank(mode->origin)) return;
  const std::string& name = *metric->value.text();
  const std::string_view fits = larger_is_better(name) ? "max" : "min", is = *mode->value.text();
  if (is == fits) return;
  const std::string from =
      mode->origin == OriginKind::kDefault ? "the default" : fmt::format("from {}", mode->mark.to_string());
  warnings.push_back(fmt::format("{}: {} is {} with mode {}, {}; write mode: {} beside it if that is better",
                                 metric->mark.to_string(), metric->path, name, is, from, fits));
}

// What one_cycle replaces.
void warn_of_cycle(const ReadResult& recipe, std::vector<std::string>& warnings) {
  if (recipe.recipe.scheduler.type != SchedulerType::kOneCycle) return;
  // A group's own rate is a share of the optimizer's.
  const auto& groups = recipe.recipe.optimizer.groups;
  const bool shares = std::any_of(groups.begin(), groups.end(), [&](const ParameterGroup& group) {
    return group.hyper.lr != recipe.recipe.optimizer.hyper.lr;
  });
  for (const Leaf& leaf : recipe.leaves) {
    if (!leaf.path.starts_with("optimizer.") || !differs_from_default(recipe, leaf)) continue;
    const std::string_view key = std::string_view(leaf.path).substr(leaf.path.rfind('.') + 1);
    if (leaf.path == "optimizer.lr" && !shares)
      warnings.push_back(without_effect(leaf, "scheduler.max_lr is the rate at the peak of one_cycle"));
    if (recipe.recipe.scheduler.cycle_momentum && (key == "momentum" || key == "betas"))
      warnings.push_back(without_effect(leaf, key == "momentum" ? "scheduler.cycle_momentum moves it"
                                                                : "scheduler.cycle_momentum moves the first of them"));
  }
}

}  // namespace

std::vector<std::string> recipe_warnings(const ReadResult& recipe) {
  std::vector<std::string> warnings;
  for (const std::string_view section : {"checkpoint.keep_best", "train.early_stopping", "scheduler"})
    warn_of_mode(recipe, section, warnings);
  warn_of_cycle(recipe, warnings);
  return warnings;
}

}  // namespace runner::schema
