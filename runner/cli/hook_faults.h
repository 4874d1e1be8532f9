// Reports errors in a hook file like faults of the recipe that names it.
#pragma once

#include <string>
#include <vector>

#include "runner/train/step/hooks.h"
#include "schema/recipe/recipe_reader.h"

namespace runner::cli {

// Wraps `make`. The result throws schema::RecipeError if the hook cannot be used or contradicts the recipe, with the
// line of the hook file or else the recipe key. `recipe` must outlive the result.
train::MakeHooks usable_hooks(const schema::ReadResult& recipe, train::MakeHooks make);

// If the hook has `model` or `optimizers`, reads the data and makes the model and the optimizers. Returns warnings:
// about the optimizers, or that the data cannot be read. Throws schema::RecipeError with the line of the hook file if
// they cannot be made. `hooks`: null if there is no hook.
std::vector<std::string> check_model_and_optimizers(const schema::ReadResult& recipe, train::Hooks* hooks);

}  // namespace runner::cli
