// The exit code of errors before a run is recorded.
#pragma once

#include <exception>
#include <type_traits>

#include "schema/base/error.h"
#include "schema/base/system_limits.h"

namespace runner {

// Calls `work`, which records nothing if it throws. If the error is of kind kRun, changes it to kRecipe: no run failed,
// but the recipe, its hook or its data cannot be used as they are. So the exit code is 2, not 1.
template <class Work>
std::invoke_result_t<Work> unrecorded(Work work) {
  const auto is_of_run = [](const Error& error) { return error.kind() == ErrorKind::kRun; };
  try {
    return work();
  } catch (Error& error) {
    if (is_of_run(error)) error.set_kind(ErrorKind::kRecipe);
    throw;
  } catch (const std::exception& exception) {
    Error error = error_of(exception);
    if (is_of_run(error)) error.set_kind(ErrorKind::kRecipe);
    throw error;
  }
}

}  // namespace runner
