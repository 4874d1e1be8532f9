#include "runner/cli/shell_word.h"

#include "schema/base/text.h"

namespace runner::cli {

std::string shell_word(std::string_view text) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+:@%,";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string_view::npos) return std::string(text);
  return "'" + replaced(text, "'", "'\\''") + "'";
}

}  // namespace runner::cli
