#include "runner/report/xla/duration.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <span>

#include <fmt/format.h>

namespace runner::report::xla {
namespace {

struct Unit {
  std::string_view name;
  int64_t ns;
  int64_t limit;  // number of units that make one of the next larger unit
  int width;
};
constexpr Unit kUnits[] = {{"d", 86'400'000'000'000, std::numeric_limits<int64_t>::max(), 2},
                           {"h", 3'600'000'000'000, 24, 2},
                           {"m", 60'000'000'000, 60, 2},
                           {"s", 1'000'000'000, 60, 2},
                           {"ms", 1'000'000, 1000, 3}};
constexpr std::string_view kMicroseconds = "us";
constexpr int64_t kMillisecond = 1'000'000;

// Subtracted from a printed "1000.000us": the true value is less than 1000 us but closer to it than to 999.999.
constexpr double kAlmost = 0.25;

std::string exact_text(double ns) {
  int64_t left = std::llround(ns);
  std::string text;
  for (const Unit& unit : kUnits) {
    if (text.empty() && left < unit.ns) continue;
    fmt::format_to(std::back_inserter(text), "{:0{}}{}", left / unit.ns, unit.width, unit.name);
    left %= unit.ns;
  }
  return text + fmt::format("{:03}.{:03}us", left / 1000, left % 1000);
}

std::string upstream_text(double ns) {
  std::string text;
  for (const Unit& unit : kUnits) {
    const auto unit_ns = static_cast<double>(unit.ns);
    const double count = ns / unit_ns;
    if (text.empty() && count < 1) continue;
    fmt::format_to(std::back_inserter(text), "{:0{}.0f}{}", count, unit.width, unit.name);
    ns -= std::floor(count) * unit_ns;
  }
  return text + fmt::format("{:07.3f}us", ns / 1000);
}

// ---- reading -------------------------------------------------------------------------------------------------------

struct Parts {
  std::span<const Unit> units;  // units present, except us
  std::array<int64_t, std::size(kUnits)> counts{};
  int64_t below_ns = 0;  // value of the us part
};

std::optional<int64_t> read_digits(std::string_view& text, size_t most) {
  int64_t number = 0;
  const size_t length = std::min(text.size(), most);
  const auto [end, error] = std::from_chars(text.data(), text.data() + length, number);
  if (error != std::errc() || text.front() == '-') return {};
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return number;
}

// Returns "153.731us" in nanoseconds.
std::optional<int64_t> read_microseconds(std::string_view text) {
  const auto whole = read_digits(text, 4);
  if (!whole) return {};
  int64_t ns = *whole * 1000;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    int64_t digit_ns = 100;
    for (; !text.empty() && text.front() >= '0' && text.front() <= '9'; text.remove_prefix(1), digit_ns /= 10) {
      if (digit_ns == 0) return {};
      ns += (text.front() - '0') * digit_ns;
    }
  }
  if (text != kMicroseconds) return {};
  return ns;
}

// Returns the unit of the first part, or null if it is us.
const Unit* first_unit(std::string_view text) {
  const size_t name = text.find_first_not_of("0123456789");
  if (name == std::string_view::npos) return nullptr;
  const size_t length = text.find_first_of("0123456789", name);
  const std::string_view unit_name = text.substr(name, length == std::string_view::npos ? length : length - name);
  for (const Unit& unit : kUnits) {
    if (unit.name == unit_name) return &unit;
  }
  return nullptr;
}

std::optional<Parts> read_parts(std::string_view text) {
  Parts parts;
  if (const Unit* const first = first_unit(text)) parts.units = {first, std::end(kUnits)};
  for (size_t i = 0; i < parts.units.size(); ++i) {
    const auto count = read_digits(text, 5);
    if (!count || !text.starts_with(parts.units[i].name)) return {};
    text.remove_prefix(parts.units[i].name.size());
    parts.counts[i] = *count;
  }
  const auto below = read_microseconds(text);
  if (!below) return {};
  parts.below_ns = *below;
  return parts;
}

std::optional<double> exact_ns(const Parts& parts) {
  if (parts.below_ns >= kMillisecond) return {};
  int64_t ns = parts.below_ns;
  for (size_t i = 0; i < parts.units.size(); ++i) {
    const int64_t count = parts.counts[i];
    if (count >= parts.units[i].limit || (i == 0 && count == 0)) return {};
    ns += count * parts.units[i].ns;
  }
  return static_cast<double>(ns);
}

// Returns the duration that upstream printed as these parts, starting with the microseconds. A printed count is one
// more than the true count exactly if half a unit or more follows. If exactly half a unit follows, upstream rounds to
// an even number, so the true count can be either neighbour. An odd count then belongs to a rate slightly above or
// below half. `tied`: set if this happens, which is possible for at most one part.
std::optional<double> upstream_ns(const Parts& parts, bool tie_is_up, bool& tied) {
  if (parts.below_ns > kMillisecond) return {};
  auto ns = static_cast<double>(parts.below_ns);
  if (parts.below_ns == kMillisecond) ns -= kAlmost;
  for (size_t i = parts.units.size(); i-- > 0;) {
    const Unit& unit = parts.units[i];
    const double half = static_cast<double>(unit.ns) / 2;
    const bool tie = ns == half;
    const bool up = tie ? tie_is_up : ns > half;
    const int64_t count = parts.counts[i] - (up ? 1 : 0);
    if (count < (i == 0 ? 1 : 0) || count >= unit.limit) return {};
    if (tie && parts.counts[i] % 2 != 0) ns += up ? kAlmost : -kAlmost;
    tied |= tie;
    ns += static_cast<double>(count) * static_cast<double>(unit.ns);
  }
  return ns;
}

}  // namespace

std::string time_text(double ns, DurationStyle style) {
  if (!std::isfinite(ns)) return fmt::format("{}us", ns);
  return style == DurationStyle::kExact ? exact_text(ns) : upstream_text(ns);
}

std::optional<DurationReading> read_time(std::string_view text) {
  if (text.ends_with("nanus")) return DurationReading{NAN, NAN, false};  // a metric of XRT without samples
  const std::optional<Parts> parts = read_parts(text);
  if (!parts) return {};
  DurationReading reading;
  reading.exact = exact_ns(*parts);
  reading.upstream = upstream_ns(*parts, true, reading.tie);
  if (!reading.upstream) reading.upstream = upstream_ns(*parts, false, reading.tie);
  return reading;
}

}  // namespace runner::report::xla
