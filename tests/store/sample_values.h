// Values that tests record and later verify, as functions of the step.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>

namespace runner::store {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

inline double loss_of(int64_t step) {
  return std::sqrt(static_cast<double>(step));
}

// Incompressible bytes.
inline std::string weights_of(int64_t step, size_t size = 6000) {
  std::mt19937_64 random(static_cast<uint64_t>(step));
  std::string bytes(size, 0);
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

}  // namespace runner::store
