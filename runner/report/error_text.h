// An Error as people read it.  Thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "schema/error.h"

namespace runner::report {

// "error: " with place, message and notes; a RecipeError's faults with their lines and carets.  Ends with a newline.
std::string error_text(const Error& error, bool color);
// The same for a text that holds all of it.
std::string error_text(std::string_view text, bool color);

}  // namespace runner::report
