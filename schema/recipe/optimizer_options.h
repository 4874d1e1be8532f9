// The options of an optimizer that is not written in a recipe but means the same.
#pragma once

#include <string_view>

#include "schema/recipe/recipe.h"

namespace runner::schema {

// type: a choice of optimizer.type; options: those of the section `optimizer`, by name.  What is left out has the
// recipe's default.  Throws Error(kRun) with the first fault: an unknown option, a wrong type, a number out of range.
OptimizerSpec read_optimizer(std::string_view type, const ValueMap& options);

}  // namespace runner::schema
