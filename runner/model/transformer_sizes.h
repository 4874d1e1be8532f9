// What transformers of tokens have in common: initial weights, sizes and their checks. `data`: of samples (T).
#pragma once

#include <string>
#include <utility>

#include "runner/data/encoding.h"
#include "runner/model/pretrained_def.h"
#include "schema/base/error.h"
#include "schema/recipe/recipe.h"

namespace runner::nn {

inline constexpr double kInitialDeviation = 0.02;  // of weights

// Returns the number of learned positions.
inline int64_t context_of(const schema::ModelSpec& spec, const data::Encoding& data) {
  return spec.context.value_or(data.feature_shape[0]);
}

inline int64_t mlp_width_of(const schema::ModelSpec& spec) {
  return spec.mlp_width.value_or(4 * spec.width);
}

// Returns the number of rows of the token embedding, which may exceed the number of tokens.
inline int64_t vocabulary_of(const schema::ModelSpec& spec, const data::Encoding& data) {
  return spec.vocabulary.value_or(data.vocabulary);
}

// Throws Error(kRecipe) if the heads do not divide the width, if the samples have more tokens than positions, or if
// the embedding has fewer rows than there are tokens.
inline void check_sizes(const schema::ModelSpec& spec, const data::Encoding& data) {
  RUN_ASSERT(spec.heads > 0);  // written, or set by apply_config()
  RUN_CHECK(spec.head_width || spec.width % spec.heads == 0, ErrorKind::kRecipe,
            "model.width is {}, which {} heads do not divide", spec.width, spec.heads);
  const int64_t tokens = data.feature_shape[0], context = context_of(spec, data);
  const bool has_mask = !data.more_inputs.empty(), has_rows = data.texts && has_mask;
  const std::string key = has_rows ? "data.tokens.max_length" : "data.train.sequence_length";
  RUN_CHECK(tokens <= context, ErrorKind::kRecipe,
            "model.context is {}, but samples of data.train have {}{} tokens; use {} or a larger context", context,
            has_rows ? "up to " : "", tokens,
            has_mask && !has_rows ? "shorter samples" : fmt::format("{}={}", key, context));
  const int64_t rows = vocabulary_of(spec, data);
  RUN_CHECK(rows >= data.vocabulary, ErrorKind::kRecipe, "model.vocabulary is {}, but data.train has {} tokens", rows,
            data.vocabulary);
}

// Sizes that config.json has and a recipe may leave out.
inline SizesByField sizes_by_field(const schema::ModelSpec& spec, const data::Encoding& data, int64_t mlp_width) {
  return {{"model.context", context_of(spec, data)},
          {"model.vocabulary", vocabulary_of(spec, data)},
          {"model.mlp_width", mlp_width}};
}

inline HubHead causal_head(std::string architecture) {
  return {.architecture = std::move(architecture), .peft_task = "CAUSAL_LM"};
}

// Throws Error(kRecipe) if the labels are not the next tokens, which is what a causal model predicts.
inline void check_next_tokens(const schema::ModelSpec& spec, const data::Encoding& data) {
  RUN_CHECK(
      !data.masking, ErrorKind::kRecipe,
      "model.type {} predicts the next token, but train.objective is masked_lm; use causal_lm, or model.type encoder "
      "with head masked_lm",
      name_of(spec.type));
}

}  // namespace runner::nn
