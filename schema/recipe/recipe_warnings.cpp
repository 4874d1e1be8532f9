#include "schema/recipe/recipe_warnings.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "schema/base/text.h"
#include "schema/recipe/metric_names.h"

namespace runner::schema {
namespace {

bool differs_from_default(const ReadResult& recipe, const Leaf& leaf) {
  return leaf.origin != OriginKind::kDefault && !(leaf.value == recipe.default_of(*leaf.field));
}

std::string without_effect(const ReadResult& recipe, const Leaf& leaf, std::string_view why) {
  return fmt::format("{}{} has no effect: {}", recipe.place_text(leaf.path), leaf.path, why);
}

// Precedence of an origin.
int rank(OriginKind origin) {
  switch (origin) {
    case OriginKind::kDefault: return 0;
    case OriginKind::kInclude: return 1;
    case OriginKind::kCommandLine: return 3;
    default: return 2;  // recipe, and ${env:…} in it
  }
}

// Sections merge key by key: a recipe that sets another metric than an included one keeps the mode of the included one,
// although no file has the two together.
void warn_of_mode(const ReadResult& recipe, std::string_view section, std::vector<std::string>& warnings) {
  const Leaf* const metric = recipe.find(fmt::format("{}.metric", section));
  const Leaf* const mode = recipe.find(fmt::format("{}.mode", section));
  if (metric == nullptr || mode == nullptr || rank(metric->origin) <= rank(mode->origin)) return;
  const std::string& name = *metric->value.text();
  const std::string_view fits = larger_is_better(name) ? "max" : "min", is = *mode->value.text();
  if (is == fits || is == "auto") return;
  warnings.push_back(
      fmt::format("{}{} is {} with mode {}, from {}; add mode: {} to the same section if that is correct",
                  recipe.place_text(metric->path), metric->path, name, is,
                  recipe.is_recorded(mode->path) ? "the recorded recipe" : mode->mark.to_string(), fits));
}

// Warns about settings that one_cycle replaces.
void warn_of_cycle(const ReadResult& recipe, std::vector<std::string>& warnings) {
  if (recipe.recipe.scheduler.type != SchedulerType::kOneCycle) return;
  // The rate of a group acts as a fraction of the optimizer's.
  const auto& groups = recipe.recipe.optimizer.groups;
  const bool shares = std::any_of(groups.begin(), groups.end(), [&](const ParameterGroup& group) {
    return group.hyper.lr != recipe.recipe.optimizer.hyper.lr;
  });
  for (const Leaf& leaf : recipe.leaves) {
    if (!leaf.path.starts_with("optimizer.") || !differs_from_default(recipe, leaf)) continue;
    const std::string_view key = std::string_view(leaf.path).substr(leaf.path.rfind('.') + 1);
    if (leaf.path == "optimizer.lr" && !shares)
      warnings.push_back(without_effect(recipe, leaf, "with one_cycle, scheduler.max_lr is the peak learning rate"));
    if (recipe.recipe.scheduler.cycle_momentum && (key == "momentum" || key == "betas"))
      warnings.push_back(without_effect(recipe, leaf,
                                        key == "momentum"
                                            ? "scheduler.cycle_momentum changes it during the run"
                                            : "scheduler.cycle_momentum changes the first one during the run"));
  }
}

void warn_of_zero_scale(const ReadResult& recipe, std::vector<std::string>& warnings) {
  for (const std::string_view path : {"data.train.scale", "data.eval.scale"}) {
    const Leaf* const leaf = recipe.find(path);
    if (leaf != nullptr && leaf->value.number() != nullptr && *leaf->value.number() == 0)
      warnings.push_back(fmt::format("{}{} is 0, so every feature is 0", recipe.place_text(leaf->path), leaf->path));
  }
}

// Warns about rates of 0: no schedule changes them.
void warn_of_rate_0(const ReadResult& recipe, std::vector<std::string>& warnings) {
  const OptimizerSpec& optimizer = recipe.recipe.optimizer;
  if (recipe.find("optimizer.lr") == nullptr || optimizer.hyper.lr != 0) return;
  if (std::ranges::any_of(optimizer.groups, [](const ParameterGroup& group) { return group.hyper.lr != 0; })) return;
  warnings.push_back(
      fmt::format("{}the learning rate is 0 in all steps: no parameter changes; set optimizer.lr above 0",
                  recipe.place_text("optimizer.lr")));
}

void warn_of_no_decay(const ReadResult& recipe, std::vector<std::string>& warnings) {
  const OptimizerSpec& optimizer = recipe.recipe.optimizer;
  const Leaf* const leaf = recipe.find("optimizer.no_decay");
  if (leaf == nullptr || optimizer.no_decay == NoDecay::kNone || optimizer.hyper.weight_decay != 0) return;
  if (std::ranges::any_of(optimizer.groups, [](const ParameterGroup& group) { return group.hyper.weight_decay != 0; }))
    return;
  warnings.push_back(without_effect(recipe, *leaf, "optimizer.weight_decay is 0"));
}

// Restarts need another process that survives.
void warn_of_restarts(const ReadResult& recipe, std::vector<std::string>& warnings) {
  const Leaf* const restarts = recipe.find("max_restarts");
  if (restarts == nullptr || recipe.recipe.max_restarts == 0 || recipe.recipe.num_processes > 1) return;
  warnings.push_back(
      without_effect(recipe, *restarts, "with one process, none is left to resume the run; set num_processes above 1"));
}

// ---- TPUs ----------------------------------------------------------------------------------------------

// A board of TPUs trains with all its devices, which multiplies the global batch of a recipe that names no number of
// processes.
void warn_of_ranks(const ReadResult& recipe, std::vector<std::string>& warnings) {
  const Recipe& is = recipe.recipe;
  const Leaf* const ranks = recipe.find("num_processes");
  if (is.num_processes == 1 || is.split_batches || (ranks != nullptr && ranks->origin != OriginKind::kDefault)) return;
  warnings.push_back(fmt::format(
      "{}backend: tpu trains with {} processes, so the global batch is {} samples instead of {}; set "
      "split_batches: true to divide data.batch_size among them, or num_processes: 1",
      recipe.place_text("backend"), is.num_processes, is.num_processes * is.data.batch_size, is.data.batch_size));
}

void warn_of_tpu(const ReadResult& recipe, std::vector<std::string>& warnings) {
  if (recipe.recipe.backend != Backend::kTpu) return;
  warn_of_ranks(recipe, warnings);
  if (recipe.recipe.mixed_precision == Precision::kFp16)
    warnings.push_back(
        fmt::format("{}mixed_precision: fp16 is not faster on a TPU, which multiplies in bf16, and overflows above "
                    "65504; use bf16",
                    recipe.place_text("mixed_precision")));
}

// Warns about texts in typographic quotes, which would become part of the text.
void warn_of_quotes(const ReadResult& recipe, std::vector<std::string>& warnings) {
  for (const Leaf& leaf : recipe.leaves) {
    const std::string* const text = leaf.origin != OriginKind::kDefault ? leaf.value.text() : nullptr;
    for (const std::string_view quote : {"\u201C", "\u201D", "\u201E", "\u2018", "\u2019"})
      if (text != nullptr && text->starts_with(quote))
        warnings.push_back(
            fmt::format("{}{} begins with the typographic quote {}, which is part of the text; YAML's "
                        "quotes are \" and '",
                        recipe.place_text(leaf.path), leaf.path, quote));
  }
}

// A misspelt name would leave the value in the record.
void warn_of_unread_secrets(const ReadResult& recipe, std::vector<std::string>& warnings) {
  const bool is_recorded = recipe.texts.source(0).is_recorded();  // there, only digests are read again
  for (const std::string& name : recipe.recipe.secret)
    if (!is_recorded && std::ranges::find(recipe.environment, name, &EnvironmentRead::name) == recipe.environment.end())
      warnings.push_back(fmt::format("{}secret: the recipe does not read the environment variable {}",
                                     recipe.place_text("secret"), in_quotes(name)));
}

}  // namespace

std::vector<std::string> recipe_warnings(const ReadResult& recipe) {
  std::vector<std::string> warnings;
  warn_of_quotes(recipe, warnings);
  for (const std::string_view section : {"checkpoint.keep_best", "train.early_stopping", "scheduler"})
    warn_of_mode(recipe, section, warnings);
  warn_of_cycle(recipe, warnings);
  warn_of_zero_scale(recipe, warnings);
  warn_of_rate_0(recipe, warnings);
  warn_of_no_decay(recipe, warnings);
  warn_of_restarts(recipe, warnings);
  warn_of_tpu(recipe, warnings);
  warn_of_unread_secrets(recipe, warnings);
  return warnings;
}

}  // namespace runner::schema
