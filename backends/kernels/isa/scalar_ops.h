// One element of every element-wise op, and the conversions between storage and registers: what both the blocks of the
// VM and the compiled groups are made of, so that they give the same bits.
#pragma once

#include "backends/ir/op.h"
#include "backends/kernels/isa/loops.h"
#include "backends/kernels/isa/vector_math.h"
#include "backends/tensor/float16.h"

namespace runner::backends::scalar_ops {

namespace vm = vector_math;

template <Compute>
struct RegisterOf;
template <>
struct RegisterOf<Compute::kF32> {
  using Type = float;
};
template <>
struct RegisterOf<Compute::kF64> {
  using Type = double;
};
template <>
struct RegisterOf<Compute::kI64> {
  using Type = int64_t;
};
template <Compute compute>
using Register = typename RegisterOf<compute>::Type;

template <DType>
struct StorageOf;
template <>
struct StorageOf<DType::kF32> {
  using Type = float;
};
template <>
struct StorageOf<DType::kF64> {
  using Type = double;
};
template <>
struct StorageOf<DType::kBf16> {
  using Type = uint16_t;
};
template <>
struct StorageOf<DType::kF16> {
  using Type = uint16_t;
};
template <>
struct StorageOf<DType::kI32> {
  using Type = int32_t;
};
template <>
struct StorageOf<DType::kI64> {
  using Type = int64_t;
};
template <>
struct StorageOf<DType::kBool> {
  using Type = uint8_t;
};
template <DType dtype>
using Storage = typename StorageOf<dtype>::Type;

// ---- storage <-> register ------------------------------------------------------------------------------------------

template <DType dtype>
RUNNER_INLINE Register<compute_of(dtype)> load(Storage<dtype> value) {
  if constexpr (dtype == DType::kBf16)
    return bf16_to_f32(value);
  else if constexpr (dtype == DType::kF16)
    return f16_to_f32(value);
  else
    return static_cast<Register<compute_of(dtype)>>(value);
}

template <DType dtype>
RUNNER_INLINE Storage<dtype> store(Register<compute_of(dtype)> value) {
  if constexpr (dtype == DType::kBf16)
    return f32_to_bf16(value);
  else if constexpr (dtype == DType::kF16)
    return vm::to_f16(value);
  else if constexpr (dtype == DType::kBool)
    return value != 0.0f;
  else
    return static_cast<Storage<dtype>>(value);
}

// Truncates; NaN and what does not fit give the smallest i64, as the hardware does.
template <class T>
RUNNER_INLINE int64_t to_integer(T value) {
  constexpr T kLimit = 9223372036854775808.0f;
  return static_cast<int64_t>(value >= -kLimit && value < kLimit ? value : -kLimit);
}

// A register as another dtype: conversion and rounding.
template <DType dtype, class From>
RUNNER_INLINE Register<compute_of(dtype)> cast(From value) {
  using To = Register<compute_of(dtype)>;
  if constexpr (dtype == DType::kBool)
    return value != From{0} ? 1.0f : 0.0f;
  else if constexpr (compute_of(dtype) != Compute::kI64)
    return load<dtype>(store<dtype>(static_cast<To>(value)));
  else if constexpr (std::is_same_v<From, int64_t>)
    return load<dtype>(store<dtype>(value));
  else
    return load<dtype>(store<dtype>(to_integer(value)));
}

// ---- ops -----------------------------------------------------------------------------------------------------------

constexpr bool is_comparison(Op op) {
  return op >= Op::kEq && op <= Op::kGe;
}
constexpr bool is_transcendental(Op op) {
  return (op >= Op::kExp && op <= Op::kErf) || (op >= Op::kGelu && op <= Op::kSilu);
}

template <Op op>
RUNNER_INLINE float transcendental(float x) {
  if constexpr (op == Op::kExp) return vm::exp(x);
  if constexpr (op == Op::kLog) return vm::log(x);
  if constexpr (op == Op::kLog1p) return vm::log1p(x);
  if constexpr (op == Op::kSqrt) return std::sqrt(x);
  if constexpr (op == Op::kRsqrt) return 1.0f / std::sqrt(x);
  if constexpr (op == Op::kTanh) return vm::tanh(x);
  if constexpr (op == Op::kSigmoid) return vm::sigmoid(x);
  if constexpr (op == Op::kErf) return vm::erf(x);
  if constexpr (op == Op::kGelu) return vm::gelu(x);
  if constexpr (op == Op::kGeluTanh) return vm::gelu_tanh(x);
  if constexpr (op == Op::kSilu) return vm::silu(x);
}

template <Op op>
RUNNER_INLINE double transcendental(double x) {
  if constexpr (op == Op::kExp) return std::exp(x);
  if constexpr (op == Op::kLog) return std::log(x);
  if constexpr (op == Op::kLog1p) return std::log1p(x);
  if constexpr (op == Op::kSqrt) return std::sqrt(x);
  if constexpr (op == Op::kRsqrt) return 1.0 / std::sqrt(x);
  if constexpr (op == Op::kTanh) return std::tanh(x);
  if constexpr (op == Op::kSigmoid) return 1.0 / (1.0 + std::exp(-x));
  if constexpr (op == Op::kErf) return std::erf(x);
  if constexpr (op == Op::kGelu) return x * (0.5 * std::erfc(-x * 0.70710678118654752440));
  if constexpr (op == Op::kGeluTanh)
    return x / (1.0 + std::exp(-1.59576912160573071176 * (x + 0.044715 * (x * x * x))));
  if constexpr (op == Op::kSilu) return x / (1.0 + std::exp(-x));
}

// Integers wrap around.
template <Op op, class T>
RUNNER_INLINE T arithmetic(T x, T y) {
  if constexpr (std::is_same_v<T, int64_t>) {
    const auto a = static_cast<uint64_t>(x), b = static_cast<uint64_t>(y);
    if constexpr (op == Op::kAdd) return static_cast<int64_t>(a + b);
    if constexpr (op == Op::kSub) return static_cast<int64_t>(a - b);
    if constexpr (op == Op::kMul) return static_cast<int64_t>(a * b);
  } else {
    if constexpr (op == Op::kAdd) return x + y;
    if constexpr (op == Op::kSub) return x - y;
    if constexpr (op == Op::kMul) return x * y;
  }
}

template <Op op, class T>
RUNNER_INLINE bool compare(T x, T y) {
  if constexpr (op == Op::kEq) return x == y;
  if constexpr (op == Op::kNe) return x != y;
  if constexpr (op == Op::kLt) return x < y;
  if constexpr (op == Op::kLe) return x <= y;
  if constexpr (op == Op::kGt) return x > y;
  if constexpr (op == Op::kGe) return x >= y;
}

RUNNER_INLINE float absolute(float x) {
  return vm::magnitude(x);
}
RUNNER_INLINE double absolute(double x) {
  return std::fabs(x);
}
RUNNER_INLINE int64_t absolute(int64_t x) {
  return x < 0 ? arithmetic<Op::kSub>(int64_t{0}, x) : x;
}

// True where an op takes registers of type T (where: its second and third operand).
template <class T>
constexpr bool exists(Op op) {
  constexpr bool kInteger = std::is_same_v<T, int64_t>;
  if (op == Op::kCast) return false;  // EltwiseLoops::cast
  if (op == Op::kNot || op == Op::kAnd || op == Op::kOr) return std::is_same_v<T, float>;
  if (is_transcendental(op) || op == Op::kDiv || op == Op::kPow || op == Op::kIsFinite) return !kInteger;
  return op >= Op::kNeg && op <= Op::kWhere;
}

// The op on registers of type T; comparisons, is_finite and the logical ops give 0 or 1 as f32, which is also what the
// condition of where is.
template <Op op, class T, class First>
RUNNER_INLINE auto apply(First a, T b, T c) {
  if constexpr (op == Op::kWhere)
    return a != 0.0f ? b : c;
  else if constexpr (is_transcendental(op))
    return transcendental<op>(a);
  else if constexpr (is_comparison(op))
    return compare<op>(a, b) ? 1.0f : 0.0f;
  else if constexpr (op == Op::kNeg) {
    if constexpr (std::is_same_v<T, int64_t>)
      return arithmetic<Op::kSub>(int64_t{0}, a);
    else
      return -a;
  } else if constexpr (op == Op::kAbs)
    return absolute(a);
  else if constexpr (op == Op::kSign)
    return static_cast<T>(a > T{0} ? 1 : a < T{0} ? -1 : 0);
  else if constexpr (op == Op::kRelu)
    return a <= T{0} ? T{0} : a;
  else if constexpr (op == Op::kIsFinite)
    return a - a == T{0} ? 1.0f : 0.0f;
  else if constexpr (op == Op::kNot)
    return a == 0.0f ? 1.0f : 0.0f;
  else if constexpr (op == Op::kAnd)
    return a != 0.0f && b != 0.0f ? 1.0f : 0.0f;
  else if constexpr (op == Op::kOr)
    return a != 0.0f || b != 0.0f ? 1.0f : 0.0f;
  else if constexpr (op == Op::kDiv)
    return a / b;
  else if constexpr (op == Op::kPow) {
    if constexpr (std::is_same_v<T, float>)
      return vm::pow(a, b);
    else
      return std::pow(a, b);
  } else if constexpr (op == Op::kMin)
    return a < b || a != a ? a : b;
  else if constexpr (op == Op::kMax)
    return a > b || a != a ? a : b;
  else
    return arithmetic<op>(a, b);
}

}  // namespace runner::backends::scalar_ops
