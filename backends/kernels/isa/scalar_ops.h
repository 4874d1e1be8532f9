// Kernels of element-wise ops: one element, as a reference and on each register type, and the conversions between
// storage and registers.
//
// The interpreter (eltwise_loops.cpp) and the compiled groups (named_loops.cpp) both use these functions, so they give
// the same bits. Every element-wise op of ir/op_list.def needs a Scalar; without it the tables over the list do not
// compile.
#pragma once

#include <cmath>
#include <type_traits>

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

// Truncates; NaN and numbers that do not fit give the smallest i64, as the hardware does.
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

using Real = long double;  // type of references, as in reference.h

// Register types that an op takes; for where, its second and third operand.
enum class Registers : uint8_t {
  kNone,     // a cast, which EltwiseLoops::cast converts
  kBools,    // f32, 0 or 1
  kFloats,   // f32, f64
  kNumbers,  // f32, f64, i64
};

// `picoseconds`: time per f32 element on a current core, which decides the number of chunks.
template <Registers registers, int picoseconds>
struct ScalarTraits {
  static constexpr Registers kRegisters = registers;
  static constexpr double kNanoseconds = picoseconds / 1000.0;
};
inline constexpr int kCheap = 50, kTranscendental = 400;

// One specialisation per element-wise op: ScalarTraits, `reference` on Real, and `apply` on registers. Comparisons,
// is_finite and logical ops return 0 or 1 in f32; the condition of where is f32.
template <Op op>
struct Scalar;

// Integers wrap around.
RUNNER_INLINE int64_t wrapped(uint64_t value) {
  return static_cast<int64_t>(value);
}
RUNNER_INLINE uint64_t unwrapped(int64_t value) {
  return static_cast<uint64_t>(value);
}

// ---- arithmetic ----

template <>
struct Scalar<Op::kNeg> : ScalarTraits<Registers::kNumbers, kCheap> {
  static Real reference(Real x) { return -x; }
  template <class T>
  RUNNER_INLINE T apply(T x) {
    if constexpr (std::is_same_v<T, int64_t>)
      return wrapped(0 - unwrapped(x));
    else
      return -x;
  }
};

template <>
struct Scalar<Op::kAbs> : ScalarTraits<Registers::kNumbers, kCheap> {
  static Real reference(Real x) { return std::fabs(x); }
  RUNNER_INLINE float apply(float x) { return vm::magnitude(x); }
  RUNNER_INLINE double apply(double x) { return std::fabs(x); }
  RUNNER_INLINE int64_t apply(int64_t x) { return x < 0 ? wrapped(0 - unwrapped(x)) : x; }
};

template <>
struct Scalar<Op::kSign> : ScalarTraits<Registers::kNumbers, kCheap> {
  static Real reference(Real x) { return static_cast<Real>((x > 0) - (x < 0)); }
  template <class T>
  RUNNER_INLINE T apply(T x) {
    return static_cast<T>(x > T{0} ? 1 : x < T{0} ? -1 : 0);
  }
};

template <>
struct Scalar<Op::kAdd> : ScalarTraits<Registers::kNumbers, kCheap> {
  static Real reference(Real x, Real y) { return x + y; }
  template <class T>
  RUNNER_INLINE T apply(T x, T y) {
    if constexpr (std::is_same_v<T, int64_t>)
      return wrapped(unwrapped(x) + unwrapped(y));
    else
      return x + y;
  }
};

template <>
struct Scalar<Op::kSub> : ScalarTraits<Registers::kNumbers, kCheap> {
  static Real reference(Real x, Real y) { return x - y; }
  template <class T>
  RUNNER_INLINE T apply(T x, T y) {
    if constexpr (std::is_same_v<T, int64_t>)
      return wrapped(unwrapped(x) - unwrapped(y));
    else
      return x - y;
  }
};

template <>
struct Scalar<Op::kMul> : ScalarTraits<Registers::kNumbers, kCheap> {
  static Real reference(Real x, Real y) { return x * y; }
  template <class T>
  RUNNER_INLINE T apply(T x, T y) {
    if constexpr (std::is_same_v<T, int64_t>)
      return wrapped(unwrapped(x) * unwrapped(y));
    else
      return x * y;
  }
};

template <>
struct Scalar<Op::kDiv> : ScalarTraits<Registers::kFloats, kCheap> {
  static Real reference(Real x, Real y) { return x / y; }
  template <class T>
  RUNNER_INLINE T apply(T x, T y) {
    return x / y;
  }
};

template <>
struct Scalar<Op::kPow> : ScalarTraits<Registers::kFloats, 2000> {
  static Real reference(Real x, Real y) { return std::pow(x, y); }
  RUNNER_INLINE float apply(float x, float y) { return vm::pow(x, y); }
  RUNNER_INLINE double apply(double x, double y) { return std::pow(x, y); }
};

template <>
struct Scalar<Op::kMin> : ScalarTraits<Registers::kNumbers, kCheap> {
  static Real reference(Real x, Real y) { return std::isnan(x) || x < y ? x : y; }
  template <class T>
  RUNNER_INLINE T apply(T x, T y) {
    return x < y || x != x ? x : y;
  }
};

template <>
struct Scalar<Op::kMax> : ScalarTraits<Registers::kNumbers, kCheap> {
  static Real reference(Real x, Real y) { return std::isnan(x) || x > y ? x : y; }
  template <class T>
  RUNNER_INLINE T apply(T x, T y) {
    return x > y || x != x ? x : y;
  }
};

// ---- comparisons and logic ----

template <>
struct Scalar<Op::kEq> : ScalarTraits<Registers::kNumbers, kCheap> {
  static Real reference(Real x, Real y) { return x == y; }
  template <class T>
  RUNNER_INLINE float apply(T x, T y) {
    return x == y ? 1.0f : 0.0f;
  }
};

template <>
struct Scalar<Op::kNe> : ScalarTraits<Registers::kNumbers, kCheap> {
  static Real reference(Real x, Real y) { return x != y; }
  template <class T>
  RUNNER_INLINE float apply(T x, T y) {
    return x != y ? 1.0f : 0.0f;
  }
};

template <>
struct Scalar<Op::kLt> : ScalarTraits<Registers::kNumbers, kCheap> {
  static Real reference(Real x, Real y) { return x < y; }
  template <class T>
  RUNNER_INLINE float apply(T x, T y) {
    return x < y ? 1.0f : 0.0f;
  }
};

template <>
struct Scalar<Op::kLe> : ScalarTraits<Registers::kNumbers, kCheap> {
  static Real reference(Real x, Real y) { return x <= y; }
  template <class T>
  RUNNER_INLINE float apply(T x, T y) {
    return x <= y ? 1.0f : 0.0f;
  }
};

template <>
struct Scalar<Op::kGt> : ScalarTraits<Registers::kNumbers, kCheap> {
  static Real reference(Real x, Real y) { return x > y; }
  template <class T>
  RUNNER_INLINE float apply(T x, T y) {
    return x > y ? 1.0f : 0.0f;
  }
};

template <>
struct Scalar<Op::kGe> : ScalarTraits<Registers::kNumbers, kCheap> {
  static Real reference(Real x, Real y) { return x >= y; }
  template <class T>
  RUNNER_INLINE float apply(T x, T y) {
    return x >= y ? 1.0f : 0.0f;
  }
};

template <>
struct Scalar<Op::kIsFinite> : ScalarTraits<Registers::kFloats, kCheap> {
  static Real reference(Real x) { return std::isfinite(x); }
  template <class T>
  RUNNER_INLINE float apply(T x) {
    return x - x == T{0} ? 1.0f : 0.0f;
  }
};

template <>
struct Scalar<Op::kNot> : ScalarTraits<Registers::kBools, kCheap> {
  static Real reference(Real x) { return x == 0; }
  RUNNER_INLINE float apply(float x) { return x == 0.0f ? 1.0f : 0.0f; }
};

template <>
struct Scalar<Op::kAnd> : ScalarTraits<Registers::kBools, kCheap> {
  static Real reference(Real x, Real y) { return x != 0 && y != 0; }
  RUNNER_INLINE float apply(float x, float y) { return x != 0.0f && y != 0.0f ? 1.0f : 0.0f; }
};

template <>
struct Scalar<Op::kOr> : ScalarTraits<Registers::kBools, kCheap> {
  static Real reference(Real x, Real y) { return x != 0 || y != 0; }
  RUNNER_INLINE float apply(float x, float y) { return x != 0.0f || y != 0.0f ? 1.0f : 0.0f; }
};

template <>
struct Scalar<Op::kWhere> : ScalarTraits<Registers::kNumbers, kCheap> {
  static Real reference(Real condition, Real x, Real y) { return condition != 0 ? x : y; }
  template <class T>
  RUNNER_INLINE T apply(float condition, T x, T y) {
    return condition != 0.0f ? x : y;
  }
};

template <>
struct Scalar<Op::kCast> : ScalarTraits<Registers::kNone, kCheap> {
  static Real reference(Real x) { return x; }
};

// ---- elementary functions ----

template <>
struct Scalar<Op::kExp> : ScalarTraits<Registers::kFloats, kTranscendental> {
  static Real reference(Real x) { return std::exp(x); }
  RUNNER_INLINE float apply(float x) { return vm::exp(x); }
  RUNNER_INLINE double apply(double x) { return std::exp(x); }
};

template <>
struct Scalar<Op::kLog> : ScalarTraits<Registers::kFloats, kTranscendental> {
  static Real reference(Real x) { return std::log(x); }
  RUNNER_INLINE float apply(float x) { return vm::log(x); }
  RUNNER_INLINE double apply(double x) { return std::log(x); }
};

template <>
struct Scalar<Op::kLog1p> : ScalarTraits<Registers::kFloats, kTranscendental> {
  static Real reference(Real x) { return std::log1p(x); }
  RUNNER_INLINE float apply(float x) { return vm::log1p(x); }
  RUNNER_INLINE double apply(double x) { return std::log1p(x); }
};

template <>
struct Scalar<Op::kSqrt> : ScalarTraits<Registers::kFloats, kCheap> {
  static Real reference(Real x) { return std::sqrt(x); }
  template <class T>
  RUNNER_INLINE T apply(T x) {
    return std::sqrt(x);
  }
};

template <>
struct Scalar<Op::kRsqrt> : ScalarTraits<Registers::kFloats, kTranscendental> {
  static Real reference(Real x) { return 1 / std::sqrt(x); }
  template <class T>
  RUNNER_INLINE T apply(T x) {
    return T{1} / std::sqrt(x);
  }
};

template <>
struct Scalar<Op::kTanh> : ScalarTraits<Registers::kFloats, kTranscendental> {
  static Real reference(Real x) { return std::tanh(x); }
  RUNNER_INLINE float apply(float x) { return vm::tanh(x); }
  RUNNER_INLINE double apply(double x) { return std::tanh(x); }
};

template <>
struct Scalar<Op::kSigmoid> : ScalarTraits<Registers::kFloats, kTranscendental> {
  static Real reference(Real x) { return 1 / (1 + std::exp(-x)); }
  RUNNER_INLINE float apply(float x) { return vm::sigmoid(x); }
  RUNNER_INLINE double apply(double x) { return 1.0 / (1.0 + std::exp(-x)); }
};

template <>
struct Scalar<Op::kErf> : ScalarTraits<Registers::kFloats, kTranscendental> {
  static Real reference(Real x) { return std::erf(x); }
  RUNNER_INLINE float apply(float x) { return vm::erf(x); }
  RUNNER_INLINE double apply(double x) { return std::erf(x); }
};

// ---- activations ----

template <>
struct Scalar<Op::kRelu> : ScalarTraits<Registers::kNumbers, kCheap> {
  static Real reference(Real x) { return x <= 0 ? 0 : x; }
  template <class T>
  RUNNER_INLINE T apply(T x) {
    return x <= T{0} ? T{0} : x;
  }
};

template <>
struct Scalar<Op::kGelu> : ScalarTraits<Registers::kFloats, kTranscendental> {
  static Real reference(Real x) { return x * (std::erfc(-x * 0.70710678118654752440L) / 2); }
  RUNNER_INLINE float apply(float x) { return vm::gelu(x); }
  RUNNER_INLINE double apply(double x) { return x * (0.5 * std::erfc(-x * 0.70710678118654752440)); }
};

template <>
struct Scalar<Op::kGeluTanh> : ScalarTraits<Registers::kFloats, kTranscendental> {
  static Real reference(Real x) {
    constexpr Real kSqrt2OverPi = 0.79788456080286535588L;
    return x * Scalar<Op::kSigmoid>::reference(2 * kSqrt2OverPi * (x + 0.044715L * x * x * x));
  }
  RUNNER_INLINE float apply(float x) { return vm::gelu_tanh(x); }
  RUNNER_INLINE double apply(double x) {
    return x / (1.0 + std::exp(-1.59576912160573071176 * (x + 0.044715 * (x * x * x))));
  }
};

template <>
struct Scalar<Op::kSilu> : ScalarTraits<Registers::kFloats, kTranscendental> {
  static Real reference(Real x) { return x * Scalar<Op::kSigmoid>::reference(x); }
  RUNNER_INLINE float apply(float x) { return vm::silu(x); }
  RUNNER_INLINE double apply(double x) { return x / (1.0 + std::exp(-x)); }
};

// With s = σ(u): s + x s (1 − s) du/dx.
template <class T>
RUNNER_INLINE T slope_by_sigmoid(T x, T u, T du) {
  const T s = 1 / (1 + std::exp(-u)), rest = 1 / (1 + std::exp(u));
  return s + x * s * (rest * du);
}

template <class T>
RUNNER_INLINE T gelu_slope(T x) {
  const T half_square = x * x / 2;
  const T density = std::exp(-half_square) * static_cast<T>(0.39894228040143267794L);
  return std::erfc(-x * static_cast<T>(0.70710678118654752440L)) / 2 + vm::bounded(x, T{40}) * density;
}

template <class T>
RUNNER_INLINE T gelu_tanh_slope(T x) {
  const T inner = vm::bounded(x, T{40}), root = static_cast<T>(1.59576912160573071176L);
  const T cubic = static_cast<T>(0.044715L) * (inner * inner);
  return slope_by_sigmoid(inner, root * (inner + cubic * inner), root * (1 + 3 * cubic));
}

template <>
struct Scalar<Op::kGeluSlope> : ScalarTraits<Registers::kFloats, kTranscendental> {
  static Real reference(Real x) { return gelu_slope(x); }
  RUNNER_INLINE float apply(float x) { return vm::gelu_slope(x); }
  RUNNER_INLINE double apply(double x) { return gelu_slope(x); }
};

template <>
struct Scalar<Op::kGeluTanhSlope> : ScalarTraits<Registers::kFloats, kTranscendental> {
  static Real reference(Real x) { return gelu_tanh_slope(x); }
  RUNNER_INLINE float apply(float x) { return vm::gelu_tanh_slope(x); }
  RUNNER_INLINE double apply(double x) { return gelu_tanh_slope(x); }
};

template <>
struct Scalar<Op::kSiluSlope> : ScalarTraits<Registers::kFloats, kTranscendental> {
  static Real reference(Real x) { return slope_by_sigmoid(vm::bounded(x, Real{12000}), x, Real{1}); }
  RUNNER_INLINE float apply(float x) { return vm::silu_slope(x); }
  RUNNER_INLINE double apply(double x) { return slope_by_sigmoid(vm::bounded(x, 800.0), x, 1.0); }
};

// ---- by op ---------------------------------------------------------------------------------------------------------

// Whether an op takes registers of type T.
template <Op op, class T>
constexpr bool exists() {
  if constexpr (!is_elementwise(op)) {
    return false;
  } else {
    constexpr Registers kTaken = Scalar<op>::kRegisters;
    if (std::is_same_v<T, float>) return kTaken != Registers::kNone;
    if (std::is_same_v<T, double>) return kTaken == Registers::kFloats || kTaken == Registers::kNumbers;
    return kTaken == Registers::kNumbers;
  }
}

// Operands beyond the op's arity are ignored.
template <Op op, class T, class First>
RUNNER_INLINE auto apply(First a, T b, T c) {
  if constexpr (takes_operands(op, 1))
    return Scalar<op>::apply(a);
  else if constexpr (takes_operands(op, 2))
    return Scalar<op>::apply(a, b);
  else
    return Scalar<op>::apply(a, b, c);
}

template <Op op>
Real reference(Real x, Real y, Real z) {
  if constexpr (takes_operands(op, 1))
    return Scalar<op>::reference(x);
  else if constexpr (takes_operands(op, 2))
    return Scalar<op>::reference(x, y);
  else
    return Scalar<op>::reference(x, y, z);
}

}  // namespace runner::backends::scalar_ops
