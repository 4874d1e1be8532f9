#include "runner/data/row_texts.h"

#include <algorithm>

#include <fmt/format.h>

#include "schema/base/error.h"
#include "schema/base/text.h"

namespace runner::data {

RowTexts::RowTexts(Storage& storage, const ReadOptions& options, const std::string& file)
    : storage_(storage), options_(options), file_(file) {
  RUN_CHECK(options.tokenizer != nullptr, ErrorKind::kRecipe, "{}: text columns need data.tokens", file);
  storage.rows.emplace();
  storage.masker = options.masker();
}

void RowTexts::add(std::span<const std::string> texts, int64_t line, const std::string& rejection) {
  RUN_CHECK(storage_.samples < INT32_MAX - 1, ErrorKind::kData, "{}: more than {} samples", file_, INT32_MAX - 1);
  if (!rejection.empty()) return reject(rejection);
  empty_ += std::ranges::all_of(texts, [](const std::string& text) { return trim(text).empty(); });
  try {
    options_.tokenizer->add(texts, options_.labels == LabelsAs::kNextTokens, *storage_.rows);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kData) throw;
    if (options_.predicts) return reject(error.message());
    fail(ErrorKind::kData, "{}:{}: {}", file_, line, error.message());
  }
}

// The row stays, without tokens.
void RowTexts::reject(const std::string& reason) {
  storage_.rejected.push_back({storage_.samples, reason});
  storage_.rows->ends.push_back(std::ssize(storage_.rows->ids));
}

void RowTexts::finish() {
  storage_.vocabulary = options_.tokenizer->finish(*storage_.rows);
  storage_.feature_shape = backends::Shape{options_.tokenizer->max_length()};
  storage_.feature_names.clear();
  if (are_tokens(options_.labels)) storage_.use_tokens_as_labels(options_.labels);
  if (empty_ > 0)
    storage_.warnings.push_back(
        fmt::format("{} of {} rows {} no text", empty_, storage_.samples, empty_ == 1 ? "has" : "have"));
}

}  // namespace runner::data
