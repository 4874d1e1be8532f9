// Reports errors in a hook file like faults of the recipe that names it.
#pragma once

#include "runner/report/output.h"
#include "runner/train/loop/hooks.h"
#include "schema/recipe/recipe_reader.h"

namespace runner::cli {

// Returns a function that prints texts of hooks as messages. `out` must outlive it.
train::Print printer(report::Output& out);

// Wraps `make`. The result throws schema::RecipeError if the hook cannot be used or contradicts the recipe, with the
// line of the hook file or else the recipe key. `recipe` must outlive the result.
train::MakeHooks usable_hooks(const schema::ReadResult& recipe, train::MakeHooks make);

// Returns an error whose place is known as a fault of the hook file.
schema::RecipeError fault_in_hook_file(const Error& error);

// Calls `work`. An error of the hook's code becomes a fault of the hook file.
template <class Work>
auto in_hook_file(Work work) {
  try {
    return work();
  } catch (const schema::RecipeError&) {
    throw;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kData || !error.where().known()) throw;
    throw fault_in_hook_file(error);
  }
}

}  // namespace runner::cli
