// What is wrong with a hook file, told as faults of the recipe that names it are.
#pragma once

#include "runner/train/step/hooks.h"
#include "schema/recipe_reader.h"

namespace runner::cli {

// A maker that throws schema::RecipeError where hooks of `make` cannot be used, or do not agree with the recipe: at the
// line of the file, else at the key.  The recipe must outlive it.
train::MakeHooks usable_hooks(const schema::ReadResult& recipe, train::MakeHooks make);

}  // namespace runner::cli
