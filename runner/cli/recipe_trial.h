// Tries a recipe without training or recording anything.
#pragma once

#include <string>
#include <vector>

#include "runner/report/output.h"
#include "schema/recipe/recipe_reader.h"

namespace runner::cli {

struct RecipeTrial {
  std::string labels;  // data::labels_text()
  std::vector<std::string> warnings;
};

// Does what a run does before its first step, and compiles the steps. Prints the output of hooks. Throws the errors
// that a run would have, with exit code 2.
RecipeTrial try_recipe(const schema::ReadResult& recipe, report::Output& out);

void print_warnings(const RecipeTrial& trial, report::Output& out);

}  // namespace runner::cli
