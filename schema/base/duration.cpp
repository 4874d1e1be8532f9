#include "schema/base/duration.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <fmt/format.h>

namespace runner {

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds)) return "?";
  if (seconds > 0 && seconds < 0.001) return fmt::format("{:.1f} us", seconds * 1e6);
  if (seconds < 0.1) return fmt::format("{:.1f} ms", seconds * 1000);
  if (seconds < 99.95) return fmt::format("{:.{}f} s", seconds, seconds < 9.995 ? 2 : 1);
  const auto whole = std::llround(std::min(seconds, 1e15));
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

std::string limit_text(std::chrono::milliseconds limit) {
  constexpr int64_t kSecond = 1000;
  if (limit.count() < kSecond) return fmt::format("{} ms", limit.count());
  return fmt::format("{} s", static_cast<double>(limit.count()) / kSecond);
}

}  // namespace runner
