#include "runner/train/loop/start_warnings.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "backends/runtime/affinity.h"
#include "runner/data/text.h"
#include "runner/model/pretrained_folder.h"
#include "runner/optim/bf16_warnings.h"
#include "runner/text/tokenizer_file.h"
#include "runner/text/tokenizer_words.h"
#include "runner/train/step/device_rules.h"
#include "schema/base/error.h"
#include "schema/base/file.h"
#include "schema/base/text.h"
#include "schema/recipe/field_words.h"
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

std::optional<std::string> shared_cores_warning(const schema::Recipe& recipe) {
  if (!recipe.enable_cpu_affinity) return std::nullopt;
  const auto cores = std::ssize(backends::usable_core_ids());
  if (cores == 0 || cores >= recipe.num_processes) return std::nullopt;  // 0: the run reports it as an error
  return fmt::format("enable_cpu_affinity: {} processes share {}; each process gets one core", recipe.num_processes,
                     cores == 1 ? "a core" : fmt::format("{} cores", cores));
}

// Variables with which PyTorch/XLA and Accelerate change the precision of a script. They do not change a run, and their
// users may not know: reports those that ask for something else than the recipe.
std::vector<std::string> ignored_variables(const schema::Recipe& recipe) {
  const bool is_bf16 = recipe.mixed_precision == schema::Precision::kBf16;
  const std::string_view precision = name_of(recipe.mixed_precision);
  const auto is_on = [](std::string_view value) { return value != "0" && value != "false"; };
  std::vector<std::string> warnings;
  const auto note = [&](const char* name, const auto& differs, std::string_view key) {
    const char* const value = std::getenv(name);
    if (value != nullptr && *value != '\0' && differs(std::string_view(value)))
      warnings.push_back(
          fmt::format("{}={} in the environment does not change the run; set {} in the recipe", name, value, key));
  };
  note(
      "XLA_USE_BF16", [&](std::string_view value) { return is_on(value) && !is_bf16; }, "mixed_precision: bf16");
  note(
      "XLA_DOWNCAST_BF16", [&](std::string_view value) { return is_on(value) && !(is_bf16 && recipe.downcast_bf16); },
      recipe.backend == schema::Backend::kTpu ? "mixed_precision: bf16 and downcast_bf16: true"
                                              : "backend: tpu, mixed_precision: bf16 and downcast_bf16: true");
  note(
      "ACCELERATE_MIXED_PRECISION", [&](std::string_view value) { return value != precision; }, "mixed_precision");
  return warnings;
}

// Returns the first difference between the ids of two tokenizers, for a message; "" if there is none.
std::string difference_of(const text::Tokenizer& own, const text::Tokenizer& other) {
  const std::vector<std::string>&a = own.tokens(), &b = other.tokens();
  const auto id = static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
  const auto token = [&](const std::vector<std::string>& tokens) {
    return id < tokens.size() ? in_quotes(tokens[id]) : "missing";
  };
  if (a != b) return fmt::format(": id {} is {} instead of {}", id, token(b), token(a));
  if (own.kind() != other.kind()) return fmt::format(": it is {} instead of {}", other.kind(), own.kind());
  return own.normalizer() == other.normalizer() ? "" : ": it changes case or accents in another way";
}

// Ids of another tokenizer mean other tokens than those that the pretrained model has learnt.
std::optional<std::string> tokenizer_warning(const schema::Recipe& recipe) {
  const schema::DataSpec& data = recipe.data;
  const bool has_texts = data.tokens || data.train.format == schema::DataFormat::kText;
  const std::string& word = data::tokens_word(data);
  if (recipe.model.pretrained.empty() || !has_texts || word == text::kIdsWord) return std::nullopt;
  const char* const key = data.tokens ? "data.tokens.tokenizer" : "data.train.tokens";
  try {
    const std::string folder = folder_of(nn::find_pretrained(recipe.model.pretrained).config);
    if (word == folder) return std::nullopt;
    const text::Tokenizer own = text::open_tokenizer(folder);
    std::string difference;
    if (!data::tokenizer_path(data).empty()) {
      difference = difference_of(own, text::open_tokenizer(word));
      if (difference.empty()) return std::nullopt;
    }
    return fmt::format("{}: {} is not the tokenizer of {}, with which the model was trained{}; remove {}", key, word,
                       folder, difference, key);
  } catch (const Error&) {  // the folder is missing or has no tokenizer, or the run reports why one cannot be opened
    return std::nullopt;
  }
}

}  // namespace

std::vector<std::string> start_warnings(const schema::ReadResult& recipe) {
  std::vector<std::string> warnings = schema::recipe_warnings(recipe);
  for (std::string& text : ignored_variables(recipe.recipe)) warnings.push_back(std::move(text));
  for (auto text :
       {crowding_warning(recipe.recipe), shared_cores_warning(recipe.recipe), tokenizer_warning(recipe.recipe)})
    if (text) warnings.push_back(std::move(*text));
  if (!rounds_to_bf16(recipe.recipe)) return warnings;
  for (std::string& text : optim::bf16_warnings(recipe)) warnings.push_back(std::move(text));
  return warnings;
}

}  // namespace runner::train
