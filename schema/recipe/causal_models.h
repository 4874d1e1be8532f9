// The model types that predict the next token.
#pragma once

#include <algorithm>
#include <string_view>

#include "schema/recipe/recipe.h"

namespace runner::schema {

inline constexpr ModelType kCausalModels[] = {ModelType::kGpt, ModelType::kLlama};

// Whether the model predicts each token from the tokens before it, so that the next tokens are its labels.
constexpr bool predicts_next_token(ModelType type) {
  return std::ranges::find(kCausalModels, type) != std::end(kCausalModels);
}

// `type`: of a recipe, such as "gpt".
constexpr bool predicts_next_token(std::string_view type) {
  return std::ranges::any_of(kCausalModels, [&](ModelType model) { return name_of(model) == type; });
}

}  // namespace runner::schema
