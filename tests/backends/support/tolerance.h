// How far two figures of a dtype may lie apart.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>

#include "tests/backends/support/host_tensor.h"

namespace runner::backends::testing {

// The distance from 1 to the next number of the dtype; 0 for those that are exact.
inline double epsilon_of(DType dtype) {
  switch (dtype) {
    case DType::kF32: return 0x1p-23;
    case DType::kF64: return 0x1p-52;
    case DType::kBf16: return 0x1p-7;
    case DType::kF16: return 0x1p-10;
    default: return 0;
  }
}

// The smallest number above 0.
inline double smallest_of(DType dtype) {
  switch (dtype) {
    case DType::kF32: return 0x1p-149;
    case DType::kF64: return 0x1p-1074;
    case DType::kBf16: return 0x1p-133;
    case DType::kF16: return 0x1p-24;
    default: return 0;
  }
}

inline std::string first_difference(const HostTensor& got, const HostTensor& want) {
  for (int64_t i = 0; i < want.size(); ++i)
    if (got[i] != want[i] && !(std::isnan(got[i]) && std::isnan(want[i])))
      return fmt::format("element {} is {}, not {}", i, got[i], want[i]);
  return "";
}

// Empty, or the first element of `got` that is further from `want` than `ulps` units in the last place of its own
// magnitude or, where figures cancel, of the largest finite one of the tensor.  NaN wants NaN, infinity itself.
inline std::string far_apart(const HostTensor& got, const HostTensor& want, double ulps) {
  if (got.type != want.type) return fmt::format("{} is not {}", got.type.to_string(), want.type.to_string());
  double largest = 0;
  for (const double value : want.values())
    if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
  // Specials of one tensor span all magnitudes: only their own counts.
  const double scale = largest > 1e6 ? 0 : largest;
  if (ulps == 0) return first_difference(got, want);
  const double bound = ulps * epsilon_of(want.type.dtype);
  for (int64_t i = 0; i < want.size(); ++i) {
    const double a = got[i], b = want[i];
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    if (std::fabs(a - b) <= bound * std::max(std::fabs(b), scale) + smallest_of(want.type.dtype)) continue;
    return fmt::format("element {} is {}, not {}", i, a, b);
  }
  return "";
}

}  // namespace runner::backends::testing
