// Numerics of an emulated TPU, against plain loops over the bits of bf16.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "backends/exec/cpu_device.h"
#include "backends/ir/autograd.h"
#include "backends/ir/ops.h"
#include "backends/tensor/float16.h"
#include "backends/tpu/numerics.h"
#include "tests/backends/support/random_program.h"
#include "tests/backends/support/run_program.h"

namespace runner::backends::testing {
namespace {

using tpu::MatmulPrecision;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// ---- conversion ----------------------------------------------------------------------------------------------------

// Finds the nearest bf16 by searching all of them. Uses no property of IEEE 754 except the order of positive numbers.
class NearestBf16 {
 public:
  NearestBf16() {
    for (uint32_t bits = 0; bits <= 0x7f7f; ++bits) values_.push_back(std::bit_cast<float>(bits << 16));
  }

  float of(float x) const {
    if (std::isnan(x)) return x;
    return std::copysign(magnitude(std::fabs(static_cast<double>(x))), x);
  }

 private:
  float magnitude(double x) const {
    // Infinity takes the place of the next number: values at least half-way to it overflow.
    const double largest = values_.back(), beyond = 0x1p128;
    if (x >= (largest + beyond) / 2) return kInfinity;
    const auto above = std::lower_bound(values_.begin(), values_.end(), x);
    size_t nearest = static_cast<size_t>(above - values_.begin());
    if (nearest == values_.size()) {
      --nearest;
    } else if (nearest > 0 && values_[nearest] != x) {
      const double up = values_[nearest] - x, down = x - values_[nearest - 1];
      if (down < up || (down == up && nearest % 2 == 1)) --nearest;  // even and odd numbers alternate
    }
    return values_[nearest] < 0x1p-126 ? 0.0f : values_[nearest];
  }

  std::vector<float> values_;  // from 0 to the largest, ascending
};

// Every bf16, and around each border between two of them the border and its f32 neighbours; all numbers from the two
// largest subnormals to the smallest normal.
std::vector<float> interesting_numbers() {
  std::vector<float> numbers;
  for (uint32_t bits = 0x007e0000; bits <= 0x00800000; ++bits)
    for (const uint32_t sign : {0x00000000u, 0x80000000u}) numbers.push_back(std::bit_cast<float>(sign | bits));
  for (uint32_t bf16 = 0; bf16 <= 0xffff; ++bf16)
    for (const uint32_t low : {0x0000u, 0x0001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu})
      numbers.push_back(std::bit_cast<float>(bf16 << 16 | low));
  return numbers;
}

HostTensor tensor_of(const Shape& shape, const std::vector<float>& values) {
  return {{DType::kF32, shape}, [&](int64_t i) { return values[static_cast<size_t>(i)]; }};
}

TEST(TpuNumerics, ConvertsEveryBf16AndEveryBorder) {
  const std::vector<float> numbers = interesting_numbers();
  const Shape shape{static_cast<int64_t>(numbers.size())};
  Program program;
  const Value x{&program, program.input(InputKind::kBatch, "x", {DType::kF32, shape})};
  program.output("y", tpu::rounded_to_bf16(x).id);
  const auto device = make_cpu_device(1);
  const HostTensor y = run_program(*device, program, {tensor_of(shape, numbers)}).outputs[0];
  const NearestBf16 nearest;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const float want = nearest.of(numbers[i]), on_host = bf16_to_f32(tpu::to_bf16(numbers[i]));
    for (const float got : {static_cast<float>(y[static_cast<int64_t>(i)]), on_host}) {
      if (std::isnan(want)) {
        ASSERT_TRUE(std::isnan(got)) << std::bit_cast<uint32_t>(numbers[i]);
      } else {
        ASSERT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(want)) << numbers[i];
      }
    }
  }
}

// ---- products ------------------------------------------------------------------------------------------------------

struct Factors {
  int64_t rows, inner, cols;
  std::vector<float> a, b;
};

Factors factors(int64_t rows, int64_t inner, int64_t cols, const std::function<float()>& number) {
  Factors f{rows, inner, cols, {}, {}};
  for (int64_t i = 0; i < rows * inner; ++i) f.a.push_back(number());
  for (int64_t i = 0; i < inner * cols; ++i) f.b.push_back(number());
  return f;
}

std::vector<float> product(const Factors& f, MatmulPrecision precision) {
  const auto host = make_cpu_device(1);
  Program program;
  const Shape a{f.rows, f.inner}, b{f.inner, f.cols};
  const Value x{&program, program.input(InputKind::kBatch, "a", {DType::kF32, a})};
  const Value y{&program, program.input(InputKind::kBatch, "b", {DType::kF32, b})};
  program.output("c", ops::matmul(x, y).id);
  const std::vector<double> values =
      run_program(*host, tpu::with_matmul_precision(program, precision), {tensor_of(a, f.a), tensor_of(b, f.b)})
          .outputs[0]
          .values();
  return {values.begin(), values.end()};
}

// Σ over k of the products of all passes, in f64, in which each product is exact.
std::vector<double> passes_of_loop(const Factors& f, MatmulPrecision precision) {
  const NearestBf16 nearest;
  std::vector<double> c;
  for (int64_t i = 0; i < f.rows; ++i)
    for (int64_t j = 0; j < f.cols; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < f.inner; ++k) {
        const float a = f.a[static_cast<size_t>(i * f.inner + k)], b = f.b[static_cast<size_t>(k * f.cols + j)];
        const float a_hi = nearest.of(a), b_hi = nearest.of(b);
        sum += double{a_hi} * b_hi;
        if (precision == MatmulPrecision::kHigh)
          sum += double{a_hi} * nearest.of(b - b_hi) + double{nearest.of(a - a_hi)} * b_hi;
      }
      c.push_back(sum);
    }
  return c;
}

// Small and large products use different kernels.
const std::vector<std::array<int64_t, 3>>& sizes() {
  static const std::vector<std::array<int64_t, 3>> kSizes = {{2, 2, 2}, {3, 70, 5}, {150, 200, 130}};
  return kSizes;
}

// Integers of up to twelve bits: bf16 has eight, and sums of so few products are exact in f32.
TEST(TpuNumerics, ProductsOfIntegersAreExact) {
  std::mt19937 rng(7);
  const auto whole = [&rng] { return static_cast<float>(static_cast<int>(rng() % 1023) - 511); };
  for (const auto& [rows, inner, cols] : {std::array<int64_t, 3>{2, 3, 2}, {17, 50, 9}, {160, 60, 240}}) {
    const Factors f = factors(rows, inner, cols, whole);
    for (const MatmulPrecision precision : {MatmulPrecision::kDefault, MatmulPrecision::kHigh}) {
      const std::vector<float> got = product(f, precision);
      const std::vector<double> want = passes_of_loop(f, precision);
      for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], want[i]) << rows << " × " << cols << " at " << i;
    }
  }
}

TEST(TpuNumerics, ProductsMatchTheirPassesUpToRounding) {
  std::mt19937 rng(8);
  std::normal_distribution<float> normal;
  for (const auto& [rows, inner, cols] : sizes()) {
    const Factors f = factors(rows, inner, cols, [&] { return normal(rng); });
    for (const MatmulPrecision precision : {MatmulPrecision::kDefault, MatmulPrecision::kHigh}) {
      const std::vector<float> got = product(f, precision);
      const std::vector<double> want = passes_of_loop(f, precision);
      const double bound = 8 * 0x1p-24 * static_cast<double>(inner);
      for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], bound);
    }
  }
}

double largest_error(MatmulPrecision precision, const Factors& f) {
  const std::vector<float> got = product(f, precision);
  double error = 0;
  for (int64_t i = 0; i < f.rows; ++i)
    for (int64_t j = 0; j < f.cols; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < f.inner; ++k)
        sum += double{f.a[static_cast<size_t>(i * f.inner + k)]} * f.b[static_cast<size_t>(k * f.cols + j)];
      error = std::max(error, std::fabs(got[static_cast<size_t>(i * f.cols + j)] - sum));
    }
  return error;
}

// 8 bits, 14 to 16 bits, and the precision of f32.
TEST(TpuNumerics, MorePassesAreMorePrecise) {
  std::mt19937 rng(9);
  std::normal_distribution<float> normal;
  const Factors f = factors(16, 64, 16, [&] { return normal(rng); });
  const double one = largest_error(MatmulPrecision::kDefault, f), three = largest_error(MatmulPrecision::kHigh, f),
               all = largest_error(MatmulPrecision::kHighest, f);
  EXPECT_GT(one, 1e-3);
  EXPECT_LT(three, 1e-3);
  EXPECT_GT(three, 1e-6);
  EXPECT_LT(all, 1e-5);
  EXPECT_LT(all, three);
}

TEST(TpuNumerics, ProductsWithAVectorAreExact) {
  std::mt19937 rng(10);
  std::normal_distribution<float> normal;
  for (const auto& [rows, cols] : {std::pair{1, 40}, {40, 1}, {1, 1}}) {
    const Factors f = factors(rows, 50, cols, [&] { return normal(rng); });
    EXPECT_EQ(product(f, MatmulPrecision::kDefault), product(f, MatmulPrecision::kHighest));
  }
}

// Beyond the largest bf16, which is less than the largest f32.
TEST(TpuNumerics, OperandsThatRoundToInfinity) {
  const float large = 3.4e38f;
  const Factors f{2, 1, 2, {large, -large}, {1, 2}};
  EXPECT_EQ(product(f, MatmulPrecision::kDefault), (std::vector<float>{kInfinity, kInfinity, -kInfinity, -kInfinity}));
  for (const float c : product(f, MatmulPrecision::kHigh)) EXPECT_TRUE(std::isnan(c));
}

// Products of the backward pass have more than one row and column if those of the forward pass do.
TEST(TpuNumerics, DerivativesUseBf16ProductsToo) {
  Program program;
  const TensorType type{DType::kF32, Shape{2, 2}};
  const Value a{&program, program.input(InputKind::kBatch, "a", type)};
  const Value b{&program, program.input(InputKind::kBatch, "b", type)};
  const Value parameters[] = {a, b};
  const Value c = ops::matmul(a, b);
  for (const Value gradient : differentiate(c, c, parameters)) program.output("gradient", gradient.id);
  int products = 0;
  const Program rewritten = tpu::with_matmul_precision(program, MatmulPrecision::kDefault);
  for (ValueId id = 0; id < rewritten.size(); ++id)
    if (rewritten.node(id).op == Op::kMatmul) {
      ++products;
      EXPECT_EQ(rewritten.type(rewritten.operands(id)[0]).dtype, DType::kBf16);
      EXPECT_EQ(rewritten.type(id).dtype, DType::kF32);
    }
  EXPECT_EQ(products, 3);
}

TEST(TpuNumerics, RoundsEachValueOnce) {
  Program program;
  const TensorType type{DType::kF32, Shape{2, 2}};
  const Value a{&program, program.input(InputKind::kBatch, "a", type)};
  const Value b{&program, program.input(InputKind::kBatch, "b", type)};
  program.output("c", ops::add(ops::matmul(a, b), ops::matmul(b, a)).id);
  const Program rewritten = tpu::with_matmul_precision(program, MatmulPrecision::kDefault);
  int casts = 0;
  for (ValueId id = 0; id < rewritten.size(); ++id) casts += rewritten.node(id).op == Op::kCast;
  EXPECT_EQ(casts, 2);
}

// Also for the views that products read, and only at the device's rounding.
TEST(TpuNumerics, ProductsReadRoundedCopiesOfStates) {
  Program program;
  const TensorType flat{DType::kF32, Shape{40}}, rows{DType::kF32, Shape{3, 5}};
  const Value state{&program, program.input(InputKind::kState, "weights", flat)};
  const Value x{&program, program.input(InputKind::kBatch, "x", rows)};
  const Value weight = ops::reshape(ops::slice(state, 0, 10, 30), {4, 5});
  program.output("product", ops::matmul(x, weight, false, true).id);
  program.output("sum", ops::add(weight, weight).id);
  Program with_copy = program;
  with_copy.input(InputKind::kState, "weights rounded", {DType::kBf16, flat.shape}, 0);

  const HostTensor weights(flat, [](int64_t i) { return 1.0 + static_cast<double>(i) / 1024; });
  const HostTensor twice({DType::kBf16, flat.shape},
                         [&](int64_t i) { return 2 * std::nearbyint(128 * weights[i]) / 128; });
  const HostTensor batch(rows, [](int64_t i) { return static_cast<double>(i % 7); });
  const auto host = make_cpu_device(1);
  const auto run = [&](const Program& made, MatmulPrecision precision, const testing::Inputs& inputs) {
    return run_program(*host, tpu::with_matmul_precision(made, precision), inputs).outputs;
  };
  const auto alone = run(program, MatmulPrecision::kDefault, {weights, batch});
  const auto copied = run(with_copy, MatmulPrecision::kDefault, {weights, batch, twice});
  for (int64_t i = 0; i < alone[0].size(); ++i) EXPECT_EQ(copied[0][i], 2 * alone[0][i]) << i;
  EXPECT_EQ(copied[1], alone[1]);
  EXPECT_EQ(run(with_copy, MatmulPrecision::kHighest, {weights, batch, twice}),
            run(program, MatmulPrecision::kHighest, {weights, batch}));
}

TEST(TpuNumerics, HighestIsBitIdenticalToTheHost) {
  const auto host = make_cpu_device(1);
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    const RandomProgram random(seed, 24);
    const Program rewritten = tpu::with_matmul_precision(random.program, MatmulPrecision::kHighest);
    EXPECT_EQ(run_program(*host, rewritten, random.inputs), run_program(*host, random.program, random.inputs))
        << "seed " << seed;
  }
}

}  // namespace
}  // namespace runner::backends::testing
