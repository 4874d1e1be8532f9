#include "schema/recipe/init_recipe.h"

#include <algorithm>

#include "schema/base/error.h"
#include "schema/base/text.h"
#include "schema/base/value.h"

namespace runner::schema {
namespace {

// Lines of at most 80 characters. Arguments: comments, name, settings, clipped norm.
constexpr std::string_view kRecipe = R"(# yaml-language-server: $schema=./runner.schema.json
# Check it with `runner check`, preview the run with `runner plan`, train
# with `runner exec`.  `runner explain THIS_FILE KEY` explains a key.
{}schema_version: 1
name: {}
seed: 42
{}
model: {{type: mlp, hidden: [64, 32], activation: relu}}

data:
  # Synthetic data.  For your own data, such as a table with a header:
  #   train: {{format: csv, path: my-data.csv, label: my-label-column}}
  train: {{format: synthetic, samples: 2000, features: [16], classes: 4}}
  split: {{eval: 0.2}}              # 20 % of the samples are held out for evaluation
  batch_size: 32
  normalize: standard             # each feature: mean 0, deviation 1

optimizer: {{type: adamw, lr: 3e-3, weight_decay: 0.01}}
scheduler: {{type: linear, warmup: 1 epoch}}

train: {{epochs: 10, clip_grad_norm: {}}}
eval: {{every: 1 epoch, metrics: [loss, accuracy]}}
checkpoint:
  every: 1 epoch
  keep_last: 2
  keep_best: {{metric: eval/accuracy}}
log: {{every: 10 steps}}
)";

}  // namespace

namespace {

std::string recipe_of(std::string_view name, std::string_view comments, std::string_view settings,
                      std::string_view clip_grad_norm) {
  const bool usable = !name.empty() && std::none_of(name.begin(), name.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
  });
  RUN_CHECK(usable, ErrorKind::kUsage, "a run's name must not be empty or contain control characters");
  // A name that YAML reads as something else needs quotes.
  const auto is_plain = [](char c) { return is_word_byte(c) || c == '-'; };
  const bool plain = std::all_of(name.begin(), name.end(), is_plain) && name.front() != '-' &&
                     read_plain_scalar(name).value.text() != nullptr && !read_plain_scalar(name).leading_zero;
  const std::string written = plain ? std::string(name) : canonical_text(Value(std::string(name)));
  return fmt::format(kRecipe, comments, written, settings, clip_grad_norm);
}

}  // namespace

std::string init_recipe(std::string_view name) {
  return recipe_of(name, "", "", "1.0");
}

std::string init_recipe(std::string_view name, const RecipeSettings& settings,
                        const std::vector<std::string>& comments) {
  std::string text, keys;
  for (const std::string& comment : comments) text += "# " + comment + "\n";
  keys += fmt::format("backend: {}\n", settings.backend);
  keys += fmt::format("num_processes: {}\n", settings.num_processes);
  // Quoted, because other YAML readers take it for false.
  keys += fmt::format("mixed_precision: {}\n", settings.mixed_precision == "no" ? "\"no\"" : settings.mixed_precision);
  if (settings.downcast_bf16) keys += "downcast_bf16: true\n";
  if (settings.enable_cpu_affinity) keys += "enable_cpu_affinity: true\n";
  if (settings.gradient_accumulation_steps)
    keys += fmt::format("gradient_accumulation_steps: {}\n", *settings.gradient_accumulation_steps);
  return recipe_of(name, text, keys, settings.clip_grad_norm ? number_text(*settings.clip_grad_norm) : "1.0");
}

}  // namespace runner::schema
