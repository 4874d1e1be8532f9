// Rows as vectors, and as their elements at even and at odd positions.
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>

#include "backends/kernels/isa/vector_math.h"

namespace runner::backends::RUNNER_ISA {

namespace {

// Calls body.template operator()<n>(i) for pieces of n elements from i on, n = 16, 8, 4 and 1: rows of windows are
// often shorter than a vector.
template <class Body>
RUNNER_INLINE void for_short_pieces(int64_t n, const Body& body) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) body.template operator()<16>(i);
  if (i + 8 <= n) body.template operator()<8>(i), i += 8;
  if (i + 4 <= n) body.template operator()<4>(i), i += 4;
  for (; i < n; ++i) body.template operator()<1>(i);
}

// Vectors of n elements T, and 2 n elements of a row as those at even and those at odd positions. Each vector is copied
// by itself: GCC copies two through the stack, in pieces, and waits for them. Vectors are not returned: where registers
// are too narrow for them, that depends on the compiler's options.
template <class T, int n>
struct Vectors {
  typedef T Vector __attribute__((vector_size(n * sizeof(T))));
  struct Halves {
    Vector even, odd;
  };

  RUNNER_INLINE void load(Vector& values, const T* x) { std::memcpy(&values, x, sizeof values); }
  RUNNER_INLINE void store(const Vector& values, T* x) { std::memcpy(x, &values, sizeof values); }
  RUNNER_INLINE void load(Halves& halves, const T* x) { load(halves, x, std::make_integer_sequence<int, n>()); }
  RUNNER_INLINE void store(const Halves& halves, T* x) { store(halves, x, std::make_integer_sequence<int, n>()); }

 private:
  template <int... i>
  RUNNER_INLINE void load(Halves& halves, const T* x, std::integer_sequence<int, i...>) {
    Vector first, second;
    load(first, x);
    load(second, x + n);
    halves.even = __builtin_shufflevector(first, second, (2 * i)...);
    halves.odd = __builtin_shufflevector(first, second, (2 * i + 1)...);
  }
  template <int... i>
  RUNNER_INLINE void store(const Halves& halves, T* x, std::integer_sequence<int, i...>) {
    const Vector first = __builtin_shufflevector(halves.even, halves.odd, (i / 2 + i % 2 * n)...);
    const Vector second = __builtin_shufflevector(halves.even, halves.odd, ((n + i) / 2 + (n + i) % 2 * n)...);
    store(first, x);
    store(second, x + n);
  }
};

// bf16 as f32: two neighbours are the halves of 32 bits. Only values of bf16 may be stored.
template <int n>
struct Vectors<uint16_t, n> {
  using Vector = typename Vectors<float, n>::Vector;
  using Halves = typename Vectors<float, n>::Halves;

  RUNNER_INLINE void load(Vector& values, const uint16_t* x) {
    uint32_t bits[n];
    for (int i = 0; i < n; ++i) bits[i] = uint32_t{x[i]} << 16;
    std::memcpy(&values, bits, sizeof values);
  }
  RUNNER_INLINE void store(const Vector& values, uint16_t* x) {
    uint32_t bits[n];
    std::memcpy(bits, &values, sizeof values);
    for (int i = 0; i < n; ++i) x[i] = static_cast<uint16_t>(bits[i] >> 16);
  }
  RUNNER_INLINE void load(Halves& halves, const uint16_t* x) {
    Bits pairs;
    std::memcpy(&pairs, x, sizeof pairs);
    halves.even = reinterpret_cast<Vector>(pairs << 16);
    halves.odd = reinterpret_cast<Vector>(pairs & kUpper);
  }
  RUNNER_INLINE void store(const Halves& halves, uint16_t* x) {
    const Bits pairs = reinterpret_cast<Bits>(halves.even) >> 16 | (reinterpret_cast<Bits>(halves.odd) & kUpper);
    std::memcpy(x, &pairs, sizeof pairs);
  }

 private:
  typedef uint32_t Bits __attribute__((vector_size(n * sizeof(uint32_t))));
  static constexpr uint32_t kUpper = 0xffff0000;
};

}  // namespace

}  // namespace runner::backends::RUNNER_ISA
