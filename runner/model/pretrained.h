// Applies config.json of model.pretrained to a recipe. Thread-safe.
#pragma once

#include "schema/recipe/recipe_reader.h"

namespace runner::nn {

// If the recipe has model.pretrained, sets the fields of `recipe` that config.json decides. If the data need a
// tokenizer and the recipe names none, sets that of the folder. Throws RecipeError if the recipe has another value,
// Error(kRecipe) if the model cannot compute what config.json says, and as find_pretrained().
void apply_config(schema::ReadResult& recipe);

}  // namespace runner::nn
