// A recipe of two epochs of two steps.
#pragma once

#include <string>
#include <vector>

#include "schema/recipe/recipe_reader.h"

namespace runner::train {

inline schema::Recipe two_epochs(const std::vector<std::string>& overrides = {}) {
  constexpr const char* kRecipe = R"(schema_version: 1
model: {type: linear}
data: {train: {format: synthetic, samples: 8, features: [3], classes: 2}, batch_size: 4}
optimizer: {type: sgd, lr: 0.1}
train: {epochs: 2}
)";
  return schema::read_recipe_text(kRecipe, "recipe.yaml", overrides).recipe;
}

}  // namespace runner::train
