#include "runner/data/narrowing.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

namespace runner::data {

WideNumber::WideNumber(int64_t value)
    : high(static_cast<double>(value)), low(static_cast<double>(__int128{value} - static_cast<__int128>(high))) {}

WideNumber::WideNumber(uint64_t value)
    : high(static_cast<double>(value)), low(static_cast<double>(__int128{value} - static_cast<__int128>(high))) {}

bool loses_digits(const WideNumber& number) {
  const double magnitude = std::fabs(number.high);
  return magnitude > 0x1p24 && magnitude < 0x1p64 &&
         (double{static_cast<float>(number.high)} != number.high || number.low != 0);
}

double offset_for(double value) {
  return std::fabs(value) > 0x1p24 && std::isfinite(value) ? value : 0;
}

Narrowing::Narrowing(size_t width, bool relative, std::span<const double> offsets)
    : relative_(relative), offsets_(offsets.begin(), offsets.end()), rounded_(width) {
  offsets_.resize(width, relative && offsets.empty() ? std::numeric_limits<double>::quiet_NaN() : 0.0);
}

float Narrowing::narrow(size_t column, const WideNumber& number) {
  double& offset = offsets_[column];
  if (std::isnan(offset)) offset = offset_for(number.high);
  if (offset == 0 && loses_digits(number)) ++rounded_[column];
  return static_cast<float>((number.high - offset) + number.low);
}

std::vector<double> Narrowing::offsets() const {
  std::vector<double> offsets = offsets_;
  std::ranges::replace_if(
      offsets, [](double offset) { return std::isnan(offset); }, 0.0);
  return std::ranges::all_of(offsets, [](double offset) { return offset == 0; }) ? std::vector<double>() : offsets;
}

std::string Narrowing::warning(const std::string& column, int64_t count, bool has_recipe) const {
  return fmt::format("column {}: {} {} above 2^24 lost digits, because f32 has 24 bits{}", column, count,
                     count == 1 ? "value" : "values",
                     relative_ || !has_recipe ? "" : "; data.normalize keeps them: it subtracts before it rounds");
}

}  // namespace runner::data
