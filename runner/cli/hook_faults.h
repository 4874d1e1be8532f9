// Reports errors in a hook file like faults of the recipe that names it.
#pragma once

#include "runner/train/engine/hooks.h"
#include "schema/recipe/recipe_reader.h"

namespace runner::cli {

// Wraps `make`. The result throws schema::RecipeError if the hook cannot be used or contradicts the recipe, with the
// line of the hook file or else the recipe key. `recipe` must outlive the result.
train::MakeHooks usable_hooks(const schema::ReadResult& recipe, train::MakeHooks make);

}  // namespace runner::cli
