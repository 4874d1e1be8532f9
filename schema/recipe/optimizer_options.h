// Reads the options of an optimizer that a hook creates.
#pragma once

#include <string_view>

#include "schema/recipe/recipe.h"

namespace runner::schema {

// `type`: a choice of optimizer.type. `options`: fields of the section `optimizer` by name; others have the recipe's
// defaults. Throws Error(kRun) with the first fault: an unknown option, a wrong type, a number out of range.
OptimizerSpec read_optimizer(std::string_view type, const ValueMap& options);

}  // namespace runner::schema
