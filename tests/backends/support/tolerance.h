// Tolerances for comparing results, by dtype.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>

#include "tests/backends/support/host_tensor.h"

namespace runner::backends::testing {

// Distance from 1 to the next number of the dtype; 0 for exact types.
inline double epsilon_of(DType dtype) {
  switch (dtype) {
    case DType::kF32: return 0x1p-23;
    case DType::kF64: return 0x1p-52;
    case DType::kBf16: return 0x1p-7;
    case DType::kF16: return 0x1p-10;
    default: return 0;
  }
}

// Smallest positive number.
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

// Returns an empty string, or a description of the first element of `got` that differs from `want` by more than `ulps`
// units in the last place of its own magnitude or, if results cancel, of the largest finite value of the tensor. NaN
// must match NaN, and infinities must be equal.
inline std::string far_apart(const HostTensor& got, const HostTensor& want, double ulps) {
  if (got.type != want.type) return fmt::format("{} is not {}", got.type.to_string(), want.type.to_string());
  double largest = 0;
  for (const double value : want.values())
    if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
  // Special values span all magnitudes, so only their own magnitude counts.
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
