// Elementary functions of vector_math.h against the C library in long double: the error bounds given in the header.
#include <cmath>
#include <numbers>
#include <random>

#include <gtest/gtest.h>

#include "backends/kernels/isa/vector_math.h"
#include "backends/tensor/float16.h"

namespace runner::backends {
namespace {

namespace vm = vector_math;
using Real = long double;

Real sigmoid(Real x) {
  return 1 / (1 + std::exp(-x));
}
Real gelu(Real x) {
  return x * (std::erfc(-x * 0.70710678118654752440L) / 2);
}
Real gelu_tanh(Real x) {
  return x * sigmoid(1.59576912160573071176L * (x + 0.044715L * x * x * x));
}
Real silu(Real x) {
  return x * sigmoid(x);
}

Real gelu_slope(Real x) {
  const Real density = std::exp(-x * x / 2) * 0.39894228040143267794L;
  return std::erfc(-x * 0.70710678118654752440L) / 2 + (density == 0 ? 0 : x * density);
}
// σ(u) + x σ(u) σ(−u) du/dx
Real slope(Real x, Real u, Real du) {
  const Real both = sigmoid(u) * sigmoid(-u);
  return sigmoid(u) + (both == 0 ? 0 : x * both * du);
}
Real gelu_tanh_slope(Real x) {
  constexpr Real kRoot = 1.59576912160573071176L, kCubic = 0.044715L;
  return slope(x, kRoot * (x + kCubic * x * x * x), kRoot * (1 + 3 * kCubic * x * x));
}
Real silu_slope(Real x) {
  return slope(x, x, 1);
}

struct Function {
  const char* name;
  float (*fast)(float);
  Real (*exact)(Real);
  double ulps;             // bound in the header
  float from = -vm::kInf;  // lower end of its range
};

const Function kFunctions[] = {
    {"exp", [](float x) { return vm::exp(x); }, [](Real x) { return std::exp(x); }, 1},
    {"log", [](float x) { return vm::log(x); }, [](Real x) { return std::log(x); }, 1},
    {"log1p", [](float x) { return vm::log1p(x); }, [](Real x) { return std::log1p(x); }, 2},
    {"tanh", [](float x) { return vm::tanh(x); }, [](Real x) { return std::tanh(x); }, 2},
    {"sigmoid", [](float x) { return vm::sigmoid(x); }, sigmoid, 3},
    {"erf", [](float x) { return vm::erf(x); }, [](Real x) { return std::erf(x); }, 3},
    {"gelu", [](float x) { return vm::gelu(x); }, gelu, 5, -1},
    {"gelu everywhere", [](float x) { return vm::gelu(x); }, gelu, 80},
    {"gelu_tanh", [](float x) { return vm::gelu_tanh(x); }, gelu_tanh, 3, -1},
    {"silu", [](float x) { return vm::silu(x); }, silu, 4, -87},
};

// Error in units in the last place of the f32 nearest to `exact`; 0 for two NaN or equal infinities.
double ulps(float got, Real exact) {
  const auto rounded = static_cast<float>(exact);
  if (std::isnan(rounded) || std::isinf(rounded) || std::isinf(got))
    return std::isnan(rounded) ? (std::isnan(got) ? 0 : 1e30) : (got == rounded ? 0 : 1e30);
  int exponent = 0;
  std::frexp(exact, &exponent);
  return static_cast<double>(std::fabs(got - exact) / std::ldexp(Real{1}, std::max(exponent, -125) - 24));
}

void expect_bound(const Function& function, float x) {
  if (x < function.from) return;
  ASSERT_LE(ulps(function.fast(x), function.exact(x)), function.ulps)
      << function.name << "(" << std::hexfloat << x << ")";
}

TEST(VectorMath, EveryBf16IsWithinItsBound) {
  for (const Function& function : kFunctions)
    for (uint32_t bits = 0; bits < 1u << 16; ++bits) expect_bound(function, vm::from_bits(bits << 16));
}

TEST(VectorMath, DenseSamplesOfF32AreWithinTheirBound) {
  for (const Function& function : kFunctions) {
    for (uint64_t bits = 0; bits < 1ull << 32; bits += 40009)
      expect_bound(function, vm::from_bits(static_cast<uint32_t>(bits)));
    for (int i = 0; i < 40'000; ++i) expect_bound(function, 0.001f * static_cast<float>(i - 20'000));
  }
}

TEST(VectorMath, FunctionsOfF64AreWithinTheirBound) {
  constexpr uint32_t kTurns = 1u << 24;
  for (uint32_t i = 0; i <= kTurns; i += 97) {
    const double t = i * 0x1p-24;
    const Real cosine = std::cos(2 * std::acos(Real{-1}) * static_cast<Real>(t));
    ASSERT_LE(std::fabs(vm::cos_of_turns(t) - cosine), 0x1p-50L) << i;
    if (i == 0) continue;
    for (const double x : {t, 1 / t, std::ldexp(t, -300)}) {
      const Real exact = std::log2(static_cast<Real>(x));
      ASSERT_LE(std::fabs(vm::log2(x) - exact), std::fabs(exact) * 0x1p-49L) << x;
    }
  }
  for (const double quarters : {0.0, 0.25, 0.5, 0.75, 1.0, 5.5})
    EXPECT_EQ(vm::cos_of_turns(quarters), std::round(std::cos(2 * std::numbers::pi * quarters))) << quarters;
}

// Slopes cross zero, so their errors are bounded in units of 2⁻²³, one ulp of 1.
TEST(VectorMath, SlopesAreWithinTheirBound) {
  struct Slope {
    const char* name;
    float (*fast)(float);
    Real (*exact)(Real);
    double bound;
  };
  const Slope slopes[] = {{"gelu_slope", [](float x) { return vm::gelu_slope(x); }, gelu_slope, 2},
                          {"gelu_tanh_slope", [](float x) { return vm::gelu_tanh_slope(x); }, gelu_tanh_slope, 2},
                          {"silu_slope", [](float x) { return vm::silu_slope(x); }, silu_slope, 2}};
  for (const Slope& slope : slopes) {
    const auto check = [&](float x) {
      const float got = slope.fast(x);
      if (std::isnan(x)) {
        ASSERT_TRUE(std::isnan(got)) << slope.name;
        return;
      }
      ASSERT_LE(std::fabs(got - slope.exact(x)) * 0x1p23L, slope.bound) << slope.name << "(" << x << ")";
    };
    for (uint64_t bits = 0; bits < 1ull << 32; bits += 40009) check(vm::from_bits(static_cast<uint32_t>(bits)));
    for (int i = 0; i < 40'000; ++i) check(0.001f * static_cast<float>(i - 20'000));
    check(vm::kInf);
    check(-vm::kInf);
  }
}

TEST(VectorMath, SinCos) {
  constexpr Real kTurn = 6.283185307179586476925L;
  const auto check = [](uint32_t turn) {
    const vm::SinCos got = vm::sin_cos(turn);
    // Quarter turns must be removed exactly here too, or the reference would not be zero at its zeros.
    const Real rest = kTurn * (turn % (1u << 30)) / 0x1p32L;
    Real s = std::sin(rest), c = std::cos(rest);
    for (uint32_t quarter = turn >> 30; quarter > 0; --quarter) std::swap(s, c), c = -c;
    ASSERT_LE(ulps(got.sin, s), 3) << turn;
    ASSERT_LE(ulps(got.cos, c), 3) << turn;
  };
  for (uint64_t turn = 0; turn < 1ull << 32; turn += 4001) check(static_cast<uint32_t>(turn));
  for (uint32_t eighth = 0; eighth < 8; ++eighth)
    for (int near = -3; near <= 3; ++near) check((eighth << 29) + static_cast<uint32_t>(near));
}

TEST(VectorMath, Pow) {
  std::mt19937_64 rng(1);
  const auto check = [](float x, float y) {
    ASSERT_LE(ulps(vm::pow(x, y), std::pow(static_cast<Real>(x), static_cast<Real>(y))), 1)
        << "pow(" << x << ", " << y << ")";
  };
  for (int i = 0; i < 100'000; ++i) {
    const float x = vm::from_bits(static_cast<uint32_t>(rng()));
    const float y = static_cast<float>(static_cast<int64_t>(rng() % 20001) - 10000) / (i % 3 == 0 ? 100.0f : 1000.0f);
    check(x, y);
    check(static_cast<float>(rng() % 1000) / 300.0f, y * 3);
    check(x, std::trunc(y));
  }
}

TEST(VectorMath, PowOfSpecialValuesMatchesC) {
  constexpr float kValues[] = {0.0f,        -0.0f,      1.0f,        -1.0f,      2.0f,     -2.0f,     3.0f,
                               -3.0f,       0.5f,       -0.5f,       1e30f,      -1e30f,   1e-40f,    -1e-40f,
                               16777218.0f, 8388607.0f, -8388607.0f, 4194303.5f, vm::kInf, -vm::kInf, vm::kNan};
  for (const float x : kValues)
    for (const float y : kValues) {
      const float got = vm::pow(x, y), want = std::pow(x, y);
      if (std::isnan(want)) {
        EXPECT_TRUE(std::isnan(got)) << x << " " << y;
        continue;
      }
      EXPECT_TRUE(got == want || std::fabs(got - want) <= 2e-7f * std::fabs(want)) << x << " " << y << ": " << got;
      EXPECT_EQ(std::signbit(got), std::signbit(want)) << x << " " << y;
    }
}

TEST(VectorMath, ZerosKeepTheirSign) {
  EXPECT_TRUE(std::signbit(vm::tanh(-0.0f)));
  EXPECT_TRUE(std::signbit(vm::erf(-0.0f)));
  EXPECT_TRUE(std::signbit(vm::log1p(-0.0f)));
  EXPECT_TRUE(std::signbit(vm::gelu(-0.0f)));
  EXPECT_FALSE(std::signbit(vm::tanh(0.0f)));
}

TEST(VectorMath, F16RoundsLikeTheScalarConversion) {
  for (uint64_t bits = 0; bits < 1ull << 32; bits += 1021) {
    const float x = vm::from_bits(static_cast<uint32_t>(bits));
    ASSERT_EQ(vm::to_f16(x), f32_to_f16(x)) << std::hexfloat << x;
  }
  for (uint32_t half = 0; half < 1u << 16; ++half) {
    const float x = f16_to_f32(static_cast<uint16_t>(half));
    if (std::isnan(x)) continue;
    ASSERT_EQ(vm::to_f16(x), half);
  }
}

}  // namespace
}  // namespace runner::backends
