// Formats errors and warnings for a terminal, without control characters that could move the cursor. Thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "schema/base/error.h"

namespace runner::report {

// "error: " with place, message and notes; or the faults of a RecipeError with their lines and carets. Ends with a
// newline.
std::string error_text(const Error& error, bool color);
// Overload for an error given as a complete text.
std::string error_text(std::string_view text, bool color);

// "warning: " and the text. Ends with a newline.
std::string warning_text(std::string_view text, bool color);

}  // namespace runner::report
