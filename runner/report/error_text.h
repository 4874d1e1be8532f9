// An Error as people read it.  Thread-safe.
#pragma once

#include <string>

#include "schema/error.h"

namespace runner::report {

// "error: " with place, message and notes; a RecipeError's faults with their lines and carets.  Ends with a newline.
std::string error_text(const Error& error, bool color);

}  // namespace runner::report
