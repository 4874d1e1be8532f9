#include "schema/recipe_warnings.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

namespace runner::schema {
namespace {

bool differs_from_default(const ReadResult& recipe, const Leaf& leaf) {
  return leaf.origin != OriginKind::kDefault && !(leaf.value == recipe.default_of(*leaf.field));
}

std::string without_effect(const Leaf& leaf, std::string_view why) {
  return fmt::format("{}: {} has no effect: {}", leaf.mark.to_string(), leaf.path, why);
}

}  // namespace

std::vector<std::string> recipe_warnings(const ReadResult& recipe) {
  std::vector<std::string> warnings;
  if (recipe.recipe.scheduler.type != SchedulerType::kOneCycle) return warnings;
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
  return warnings;
}

}  // namespace runner::schema
