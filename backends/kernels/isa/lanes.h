// Sums and extrema in a fixed number of lanes, so that every instruction set and compiler adds in the same order.
//
// In whole groups of 32, element i belongs to lane i mod 32. The lanes are added as a tree, then the remaining elements
// one by one. Sums of f32 are accumulated in f64, so only the rounding of the result to f32 is left (docs/numerics.md).
#pragma once

#include <cstdint>
#include <cstring>

#include "backends/kernels/isa/vector_math.h"

namespace runner::backends::lanes {

// Vectors of f64 as wide as the registers, and of the same number of f32.
inline constexpr int kWidth = RUNNER_VECTOR_BYTES / sizeof(double);
typedef double Doubles __attribute__((vector_size(kWidth * 8)));
typedef float Floats __attribute__((vector_size(kWidth * 4)));

inline constexpr int64_t kLanes = 32;
inline constexpr int kParts = kLanes / kWidth;

RUNNER_INLINE void load(Doubles& wide, const float* x) {
  Floats narrow;
  std::memcpy(&narrow, x, sizeof narrow);
  wide = __builtin_convertvector(narrow, Doubles);
}
RUNNER_INLINE void load(Doubles& wide, const double* x) {
  std::memcpy(&wide, x, sizeof wide);
}

// Sum of terms 0 … n − 1: many(i, out) writes terms i … i + kWidth − 1, one(i) returns term i.
template <class Many, class One>
RUNNER_INLINE double sum(int64_t n, const Many& many, const One& one) {
  double total = 0;
  int64_t i = 0;
  if (n >= kLanes) {
    Doubles acc[kParts] = {};
    for (; i + kLanes <= n; i += kLanes)
      for (int part = 0; part < kParts; ++part) {
        Doubles term;
        many(i + int64_t{part} * kWidth, term);
        acc[part] += term;
      }
    // Adds lane l + 16 to lane l, then l + 8, l + 4, l + 2, l + 1.
    for (int half = kParts / 2; half > 0; half /= 2)
      for (int part = 0; part < half; ++part) acc[part] += acc[part + half];
    double lane[kWidth];
    std::memcpy(lane, acc, sizeof lane);
    for (int half = kWidth / 2; half > 0; half /= 2)
      for (int l = 0; l < half; ++l) lane[l] += lane[l + half];
    total = lane[0];
  }
  for (; i < n; ++i) total += one(i);
  return total;
}

template <class T>
RUNNER_INLINE double sum(const T* x, int64_t n) {
  return sum(
      n, [x](int64_t i, Doubles& out) { load(out, x + i); }, [x](int64_t i) { return static_cast<double>(x[i]); });
}

// The largest (smallest) element; NaN if there is one. n ≥ 1.
template <bool largest, class T>
RUNNER_INLINE T extremum(const T* x, int64_t n) {
  const auto better = [](T candidate, T best) {
    return (largest ? candidate > best : candidate < best) || candidate != candidate;
  };
  T best = x[0];
  if (n >= kLanes) {
    T lane[kLanes];
    std::memcpy(lane, x, sizeof lane);
    for (int64_t i = kLanes; i + kLanes <= n; i += kLanes)
      for (int64_t l = 0; l < kLanes; ++l) lane[l] = better(x[i + l], lane[l]) ? x[i + l] : lane[l];
    for (int64_t half = kLanes / 2; half > 0; half /= 2)
      for (int64_t l = 0; l < half; ++l) lane[l] = better(lane[l + half], lane[l]) ? lane[l + half] : lane[l];
    best = lane[0];
  }
  for (int64_t i = n >= kLanes ? n / kLanes * kLanes : 1; i < n; ++i) best = better(x[i], best) ? x[i] : best;
  return best;
}

// The position of the first of the largest elements; NaN is larger than any number. n ≥ 1.
template <class T>
RUNNER_INLINE int64_t argmax(const T* x, int64_t n) {
  const T best = extremum<true>(x, n);
  const bool is_nan = best != best;
  const auto is_best = [best, is_nan](T value) { return is_nan ? value != value : value == best; };
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    bool any = false;
    for (int64_t l = 0; l < kLanes; ++l) any |= is_best(x[i + l]);
    if (any) break;
  }
  while (!is_best(x[i])) ++i;
  return i;
}

}  // namespace runner::backends::lanes
