#include "runner/report/error_text.h"

#include "runner/report/output.h"
#include "schema/diagnostic.h"

namespace runner::report {

std::string error_text(const Error& error, bool color) {
  if (const auto* recipe = dynamic_cast<const schema::RecipeError*>(&error)) {
    return schema::render_text(recipe->diagnostics(), color);
  }
  return painted("error:", Color::kRed, color) + ' ' + error.what() + '\n';
}

}  // namespace runner::report
