#include "runner/train/loop/start_warnings.h"

#include <optional>
#include <utility>

#include <fmt/format.h>

#include "backends/runtime/affinity.h"
#include "runner/optim/bf16_warnings.h"
#include "runner/train/step/device_rules.h"
#include "schema/recipe/recipe_warnings.h"

namespace runner::train {
namespace {

// Threads and processes beyond this share of the cores cost much more than they can gain.
constexpr int64_t kMostPerCore = 8;

std::optional<std::string> crowding_warning(const schema::Recipe& recipe) {
  const int64_t cores = backends::usable_cores(), most = kMostPerCore * cores;
  if (recipe.num_processes > most)
    return fmt::format(
        "{} processes take turns on {}, which is slower than fewer processes; set num_processes to {} or less, and "
        "gradient_accumulation_steps for the same global batch",
        recipe.num_processes, schema::length_text(cores, "cores"), cores);
  if (recipe.threads > most)
    return fmt::format("{} threads take turns on {}, which is slower than one for each core; remove `threads`",
                       recipe.threads, schema::length_text(cores, "cores"));
  return std::nullopt;
}

}  // namespace

std::vector<std::string> start_warnings(const schema::ReadResult& recipe) {
  std::vector<std::string> warnings = schema::recipe_warnings(recipe);
  if (auto text = crowding_warning(recipe.recipe)) warnings.push_back(std::move(*text));
  if (!rounds_to_bf16(recipe.recipe)) return warnings;
  for (std::string& text : optim::bf16_warnings(recipe)) warnings.push_back(std::move(text));
  return warnings;
}

}  // namespace runner::train
