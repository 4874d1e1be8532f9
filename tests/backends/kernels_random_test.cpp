// Random tensors: the documented words, computed independently here, and the distributions.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include <gtest/gtest.h>

#include "backends/ir/op.h"
#include "backends/kernels/isa/loops.h"
#include "backends/kernels/random.h"
#include "tests/backends/kernels_harness.h"

namespace runner::backends {
namespace {

struct Drawn {
  uint64_t seed = 0, draw = 0;
  uint32_t stream = 0;
};

std::vector<float> drawn(Op op, const Drawn& from, int64_t n, int threads = 1) {
  const TensorType key{DType::kI64, Shape{2}}, result{DType::kF32, Shape{n}};
  TestTensor operand(key);
  std::memcpy(operand.buffer->data(), &from.seed, 8);
  std::memcpy(operand.buffer->data() + 8, &from.draw, 8);
  const int64_t attrs[] = {from.stream};
  const Kernel kernel = prepare_kernel({op, std::span(&key, 1), attrs, result});
  const auto got = run_kernel(kernel, std::span(&operand, 1), std::span(&result, 1), threads);
  std::vector<float> values(static_cast<size_t>(n));
  std::memcpy(values.data(), got[0].buffer->data(), values.size() * sizeof(float));
  return values;
}

// Word e of a stream: docs/numerics.md, "Random numbers".
uint32_t word(const Drawn& from, int64_t e, uint32_t use) {
  const auto fold = static_cast<uint32_t>(from.draw >> 32) * 2246822507u;
  const PhiloxCounter block =
      philox4x32({static_cast<uint32_t>(e / 4), static_cast<uint32_t>(from.draw), from.stream, use},
                 {static_cast<uint32_t>(from.seed), static_cast<uint32_t>(from.seed >> 32) ^ fold});
  return block[static_cast<size_t>(e % 4)];
}

constexpr Drawn kDrawn[] = {{}, {42, 7, 3}, {0x9e3779b97f4a7c15u, 0x0123456789abcdefu, 0xffffffffu}};
constexpr int64_t kSizes[] = {1, 2, 3, 4, 5, 67, 40'003};

TEST(RandomTensors, UniformNumbersFollowTheDocumentation) {
  for (const Drawn& from : kDrawn)
    for (const int64_t n : kSizes) {
      const std::vector<float> got = drawn(Op::kRandomUniform, from, n, 2);
      for (int64_t e = 0; e < n; ++e)
        ASSERT_EQ(got[static_cast<size_t>(e)], static_cast<float>(word(from, e, 0x72616e01) >> 8) / 16777216.0f) << e;
    }
}

TEST(RandomTensors, NormalNumbersAreBoxMullerPairs) {
  constexpr double kPi = 3.14159265358979323846;
  for (const Drawn& from : kDrawn)
    for (const int64_t n : kSizes) {
      const std::vector<float> got = drawn(Op::kRandomNormal, from, n, 2);
      for (int64_t e = 0; e < n; ++e) {
        const auto half = static_cast<float>(word(from, e - e % 2, 0x72616e02) >> 1);
        const double u = half / 2147483648.0f + 1.0f / 4294967296.0f;
        const double angle = 2 * kPi * word(from, e - e % 2 + 1, 0x72616e02) / 4294967296.0;
        const double want = std::sqrt(-2 * std::log(u)) * (e % 2 == 0 ? std::cos(angle) : std::sin(angle));
        ASSERT_NEAR(got[static_cast<size_t>(e)], want, 5 * spacing(DType::kF32, want) + 1e-12) << e;
      }
    }
}

TEST(RandomTensors, DependOnEveryPartOfTheStream) {
  const Drawn base{1, 2, 3};
  const Drawn others[] = {{2, 2, 3}, {1 | 1ull << 40, 2, 3}, {1, 3, 3}, {1, 2 | 1ull << 40, 3}, {1, 2, 4}};
  for (const Op op : {Op::kRandomUniform, Op::kRandomNormal}) {
    const std::vector<float> first = drawn(op, base, 100);
    EXPECT_EQ(drawn(op, base, 100), first);
    for (const Drawn& other : others) EXPECT_NE(drawn(op, other, 100), first);
  }
}

// No other part of the engine draws these numbers: dropout's layer indices are small, and the two distributions differ.
TEST(RandomTensors, StreamsOfDifferentUsesDiffer) {
  const auto block = [](TensorStream::Use use) { return TensorStream(5, 6, 7, use).block(8); };
  EXPECT_NE(block(TensorStream::Use::kUniform), block(TensorStream::Use::kNormal));
  EXPECT_EQ(block(TensorStream::Use::kUniform), DropoutStream(5, 7, 6, 0x72616e01).block(8));
  for (uint32_t layer = 0; layer < 1000; ++layer) {
    EXPECT_NE(block(TensorStream::Use::kUniform), DropoutStream(5, 7, 6, layer).block(8));
    EXPECT_NE(block(TensorStream::Use::kNormal), DropoutStream(5, 7, 6, layer).block(8));
  }
}

constexpr int64_t kSamples = 200'000;

// Kolmogorov's D: the largest distance between the empirical distribution and `cdf`, times √n. Exceeds 1.95 once in a
// thousand samples.
template <class Cdf>
double kolmogorov(std::vector<float> sample, const Cdf& cdf) {
  std::sort(sample.begin(), sample.end());
  const auto n = static_cast<double>(sample.size());
  double largest = 0;
  for (size_t i = 0; i < sample.size(); ++i) {
    const double wanted = cdf(sample[i]);
    largest = std::max({largest, wanted - static_cast<double>(i) / n, static_cast<double>(i + 1) / n - wanted});
  }
  return largest * std::sqrt(n);
}

// Σ (a[i] − mean)(b[i] − mean) / (n variance), times √n: about N(0, 1) if a and b are independent.
double correlation(std::span<const float> a, std::span<const float> b, double mean, double variance) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - mean) * (b[i] - mean);
  return sum / (variance * std::sqrt(static_cast<double>(a.size())));
}

// Checks that elements at distance `lag` in one tensor are independent, and so are different draws and streams.
void expect_independent(Op op, double mean, double variance) {
  const std::vector<float> x = drawn(op, {11, 0, 0}, kSamples);
  const std::span<const float> all = x;
  for (const size_t lag : {1u, 2u, 3u, 4u, 8u, 100u})
    EXPECT_LT(std::fabs(correlation(all.first(x.size() - lag), all.subspan(lag), mean, variance)), 3.9) << lag;
  EXPECT_LT(std::fabs(correlation(x, drawn(op, {11, 1, 0}, kSamples), mean, variance)), 3.9);
  EXPECT_LT(std::fabs(correlation(x, drawn(op, {11, 0, 1}, kSamples), mean, variance)), 3.9);
  EXPECT_LT(std::fabs(correlation(x, drawn(op, {12, 0, 0}, kSamples), mean, variance)), 3.9);
}

// Deviation of the mean of f over the sample from `mean`, in standard deviations of that mean.
template <class F>
double excess(std::span<const float> sample, const F& f, double mean, double variance) {
  double sum = 0;
  for (const float x : sample) sum += f(x) - mean;
  return std::fabs(sum) / std::sqrt(variance * static_cast<double>(sample.size()));
}

TEST(RandomTensors, UniformNumbersAreUniform) {
  const auto power = [](int k) { return [k](double x) { return std::pow(x, k); }; };
  for (const uint64_t seed : {0u, 1u, 12345u}) {
    const std::vector<float> x = drawn(Op::kRandomUniform, {seed, 3, 2}, kSamples);
    EXPECT_GE(*std::min_element(x.begin(), x.end()), 0);
    EXPECT_LT(*std::max_element(x.begin(), x.end()), 1);
    EXPECT_LT(kolmogorov(x, [](double v) { return v; }), 1.95);
    for (const int k : {1, 2, 3, 4})
      EXPECT_LT(excess(x, power(k), 1.0 / (k + 1), 1.0 / (2 * k + 1) - std::pow(k + 1, -2)), 3.9) << k;
  }
  expect_independent(Op::kRandomUniform, 0.5, 1.0 / 12);
}

TEST(RandomTensors, NormalNumbersAreNormal) {
  const auto power = [](int k) { return [k](double x) { return std::pow(x, k); }; };
  for (const uint64_t seed : {0u, 1u, 12345u}) {
    const std::vector<float> x = drawn(Op::kRandomNormal, {seed, 3, 2}, kSamples);
    EXPECT_LT(kolmogorov(x, [](double v) { return std::erfc(-v / std::sqrt(2.0)) / 2; }), 1.95);
    // The moments are 0, 1, 0, 3. The variance of a moment is the moment of twice the power minus its square: 1, 2, 15,
    // 96.
    EXPECT_LT(excess(x, power(1), 0, 1), 3.9);
    EXPECT_LT(excess(x, power(2), 1, 2), 3.9);
    EXPECT_LT(excess(x, power(3), 0, 15), 3.9);
    EXPECT_LT(excess(x, power(4), 3, 96), 3.9);
    // Beyond 4: 63 in a million.
    const auto tail = [](double v) { return std::fabs(v) > 4 ? 1.0 : 0.0; };
    EXPECT_LT(excess(x, tail, 6.334e-5, 6.334e-5), 3.9);
  }
  expect_independent(Op::kRandomNormal, 0, 1);
}

// ---- initial values ------------------------------------------------------------------------------------------------

constexpr ElementStream kOfElements{.key = {0xa4093822, 0x299f31d0}, .upper = 0x0370734413198a2e};
constexpr int64_t kFirst[] = {0, 48, 0xfffffff5, int64_t{1} << 40};  // the lower word of the third one overflows

std::array<double, 2> uniforms_of(uint64_t element) {
  const PhiloxCounter words = philox4x32(
      {static_cast<uint32_t>(element), static_cast<uint32_t>(element >> 32), 0x13198a2e, 0x03707344}, kOfElements.key);
  return {(words[0] >> 8) * 0x1p-24, (words[1] >> 8) * 0x1p-24};
}

TEST(InitialValues, UniformNumbersFollowTheDocumentation) {
  for (const int64_t first : kFirst) {
    std::vector<float> values(1003);
    draw_initial(Distribution::kUniform, kOfElements, first, 0.3f, values);
    for (size_t i = 0; i < values.size(); ++i) {
      const double u = uniforms_of(static_cast<uint64_t>(first) + i)[0];
      ASSERT_EQ(values[i], static_cast<float>(2 * u - 1) * 0.3f) << first << " + " << i;
    }
  }
}

// The C library computes the formula in f64 too, so that nearly all values round to the same f32.
TEST(InitialValues, NormalNumbersFollowTheDocumentation) {
  size_t others = 0;
  for (const int64_t first : kFirst) {
    std::vector<float> values(25'003);
    draw_initial(Distribution::kNormal, kOfElements, first, 1.0f, values);
    for (size_t i = 0; i < values.size(); ++i) {
      const auto [u, v] = uniforms_of(static_cast<uint64_t>(first) + i);
      const auto want = static_cast<float>(std::sqrt(-2 * std::log(1 - u)) * std::cos(2 * std::numbers::pi * v));
      others += values[i] != want;
      ASSERT_NEAR(values[i], want, spacing(DType::kF32, static_cast<double>(want)) + 1e-14) << first << " + " << i;
    }
  }
  EXPECT_LE(others, 2u);
}

TEST(InitialValues, EveryInstructionSetGivesTheSameBits) {
  constexpr int64_t kCount = 4099;
  std::vector<float> baseline(kCount), values(kCount);
  const RandomLoops& reference = loops_of(Isa::kBaseline)->random;
  for (const auto of : {&RandomLoops::initial_uniform, &RandomLoops::initial_normal}) {
    (reference.*of)(baseline.data(), kCount, kOfElements, 7, 0.02f);
    for (const Isa isa : {Isa::kAvx2, Isa::kAvx512}) {
      const Loops* const set = loops_of(isa);
      if (set == nullptr) continue;
      (set->random.*of)(values.data(), kCount, kOfElements, 7, 0.02f);
      EXPECT_EQ(values, baseline) << name_of(isa);
    }
  }
}

}  // namespace
}  // namespace runner::backends
