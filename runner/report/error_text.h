// Errors and warnings as people read them: nothing in them moves the cursor.  Thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "schema/error.h"

namespace runner::report {

// "error: " with place, message and notes; a RecipeError's faults with their lines and carets.  Ends with a newline.
std::string error_text(const Error& error, bool color);
// The same for a text that holds all of it.
std::string error_text(std::string_view text, bool color);

// "warning: " with the text.  Ends with a newline.
std::string warning_text(std::string_view text, bool color);

}  // namespace runner::report
