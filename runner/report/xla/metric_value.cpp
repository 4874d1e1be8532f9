#include "runner/report/xla/metric_value.h"

#include <array>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

namespace runner::report::xla {
namespace {

constexpr std::array<std::string_view, 6> kSizes{"B", "KB", "MB", "GB", "TB", "PB"};

// Value of "1024.00KB". The true value is slightly less, otherwise it would be printed as "1.00MB".
constexpr double kAlmostNext = 1024 - 0.0025;

std::string size_text(double bytes) {
  size_t size = 0;
  for (; size + 1 < kSizes.size() && bytes >= 1024; ++size) bytes /= 1024;
  return fmt::format("{:.2f}{}", bytes, kSizes[size]);
}

std::optional<double> read_number(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return number;
}

std::optional<double> read_size(std::string_view text) {
  size_t size = kSizes.size() - 1;
  while (size > 0 && !text.ends_with(kSizes[size])) --size;
  if (!text.ends_with(kSizes[size])) return {};
  std::optional<double> number = read_number(text.substr(0, text.size() - kSizes[size].size()));
  if (!number) return {};
  if (*number == 1024 && size + 1 < kSizes.size()) number = kAlmostNext;
  return std::ldexp(*number, 10 * static_cast<int>(size));
}

}  // namespace

std::string metric_value_text(double value, MetricKind kind, DurationStyle style) {
  switch (kind) {
    case MetricKind::kValue: return fmt::format("{:.2f}", value);
    case MetricKind::kBytes: return size_text(value);
    case MetricKind::kTime: return time_text(value, style);
  }
  return "";
}

std::optional<MetricValue> read_metric_value(std::string_view text) {
  MetricValue reading;
  if (text.ends_with("us")) {
    reading.kind = MetricKind::kTime;
    const auto duration = read_time(text);
    if (duration) reading.duration = *duration;
    return duration ? std::optional(reading) : std::nullopt;
  }
  reading.kind = text.ends_with('B') ? MetricKind::kBytes : MetricKind::kValue;
  const auto number = text.ends_with('B') ? read_size(text) : read_number(text);
  if (!number) return {};
  reading.value = *number;
  return reading;
}

}  // namespace runner::report::xla
