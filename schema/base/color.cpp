#include "schema/base/color.h"

#include <array>

#include <fmt/format.h>

#include "schema/base/text.h"

namespace runner {
namespace {

constexpr std::array<std::string_view, 8> kCodes{"\033[0m",  "\033[1m",  "\033[31m",   "\033[32m",
                                                 "\033[33m", "\033[34m", "\033[1;31m", "\033[1;32m"};

}  // namespace

std::string painted(std::string_view text, Color color, bool enabled) {
  std::string shown = visible(text);
  if (!enabled || color == Color::kNone || text.empty()) return shown;
  return fmt::format("{}{}{}", kCodes[static_cast<size_t>(color)], shown, kCodes[0]);
}

size_t color_bytes(std::string_view text, size_t at) {
  for (const std::string_view code : kCodes)
    if (text.substr(at).starts_with(code)) return code.size();
  return 0;
}

}  // namespace runner
