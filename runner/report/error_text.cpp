
#include <fmt/format.h>

#include "runner/report/output.h"
#include "schema/base/diagnostic.h"
#include "schema/base/text.h"

namespace runner::report {

std::string error_text(std::string_view text, bool color) {
  return fmt::format("{} {}\n", painted("error:", Color::kRed, color), visible_message(text));
}

std::string warning_text(std::string_view text, bool color) {
  return fmt::format("{} {}\n", painted("warning:", Color::kYellow, color), visible_message(text));
}

std::string error_text(const Error& error, bool color) {
  if (const auto* recipe = dynamic_cast<const schema::RecipeError*>(&error)) {
    return schema::render_text(recipe->diagnostics(), color);
  }
  return error_text(error.what(), color);
}

}  // namespace runner::report
