// Transposition of squares of elements in vector registers.
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>

#include "backends/kernels/isa/vector_math.h"

namespace runner::backends::RUNNER_ISA {

// Side of a square: the number of elements in a vector of 16 bytes, or of 32 where one instruction shuffles these.
template <class T>
constexpr int kSquare = 16 / sizeof(T);
#if defined(__AVX512BW__)
template <class T>
constexpr int kWideSquare = 32 / sizeof(T);
#else
template <class T>
constexpr int kWideSquare = kSquare<T>;
#endif

// Interleaves the lower (half = 0) or upper (half = 1) halves: a0 b0 a1 b1 ….
template <class Vector, int... at>
RUNNER_INLINE Vector interleave(Vector a, Vector b, int half, std::integer_sequence<int, at...>) {
  constexpr int kSide = sizeof...(at);
  const Vector low = __builtin_shufflevector(a, b, (at / 2 + at % 2 * kSide)...);
  const Vector high = __builtin_shufflevector(a, b, (kSide / 2 + at / 2 + at % 2 * kSide)...);
  return half == 0 ? low : high;
}

// dst[j · dst_stride + i] = src[i · src_stride + j] for i and j in [0, side), by interleaving row i with row
// i + side / 2, log2(side) times.
template <int side, class T>
RUNNER_INLINE void transpose_square(T* dst, int64_t dst_stride, const T* src, int64_t src_stride) {
  typedef T Vector __attribute__((vector_size(side * sizeof(T))));
  Vector rows[side], next[side];
  for (int i = 0; i < side; ++i) std::memcpy(&rows[i], src + i * src_stride, sizeof rows[i]);
  for (int round = 1; round < side; round *= 2) {
    for (int i = 0; i < side; ++i)
      next[i] = interleave(rows[i / 2], rows[i / 2 + side / 2], i % 2, std::make_integer_sequence<int, side>{});
    for (int i = 0; i < side; ++i) rows[i] = next[i];
  }
  for (int i = 0; i < side; ++i) std::memcpy(dst + i * dst_stride, &rows[i], sizeof rows[i]);
}

}  // namespace runner::backends::RUNNER_ISA
