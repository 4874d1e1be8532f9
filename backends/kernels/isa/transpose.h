// Transposition of squares of elements in vector registers.
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>

#include "backends/kernels/isa/vector_math.h"

namespace runner::backends::RUNNER_ISA {

// Side of a square: the number of elements in 16 bytes.
template <class T>
constexpr int kSquare = 16 / sizeof(T);

// Interleaves the lower (half = 0) or upper (half = 1) halves: a0 b0 a1 b1 ….
template <class T, class Vector, int... at>
RUNNER_INLINE Vector interleave(Vector a, Vector b, int half, std::integer_sequence<int, at...>) {
  constexpr int kSide = kSquare<T>;
  const Vector low = __builtin_shufflevector(a, b, (at / 2 + at % 2 * kSide)...);
  const Vector high = __builtin_shufflevector(a, b, (kSide / 2 + at / 2 + at % 2 * kSide)...);
  return half == 0 ? low : high;
}

// dst[j · dst_stride + i] = src[i · src_stride + j] for i and j in [0, kSquare), by interleaving row i with row
// i + kSquare / 2, log2(kSquare) times.
template <class T>
RUNNER_INLINE void transpose_square(T* dst, int64_t dst_stride, const T* src, int64_t src_stride) {
  typedef T Vector __attribute__((vector_size(16)));
  constexpr int kSide = kSquare<T>;
  Vector rows[kSide], next[kSide];
  for (int i = 0; i < kSide; ++i) std::memcpy(&rows[i], src + i * src_stride, sizeof rows[i]);
  for (int round = 1; round < kSide; round *= 2) {
    for (int i = 0; i < kSide; ++i)
      next[i] = interleave<T>(rows[i / 2], rows[i / 2 + kSide / 2], i % 2, std::make_integer_sequence<int, kSide>{});
    for (int i = 0; i < kSide; ++i) rows[i] = next[i];
  }
  for (int i = 0; i < kSide; ++i) std::memcpy(dst + i * dst_stride, &rows[i], sizeof rows[i]);
}

}  // namespace runner::backends::RUNNER_ISA
