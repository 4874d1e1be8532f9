// Convolution, pooling and interpolation on small inputs, with the results of PyTorch 2.14.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "backends/ir/autograd.h"
#include "backends/ir/ops.h"
#include "tests/backends/kernels_harness.h"
#include "tests/backends/support/run_program.h"

namespace runner::backends::testing {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
using Elements = std::vector<double>;

HostTensor row_of(const Shape& shape, const Elements& numbers) {
  return HostTensor({DType::kF32, shape}, [&](int64_t i) { return numbers[static_cast<size_t>(i)]; });
}

Elements counted(int64_t first, int64_t last) {
  Elements numbers;
  for (int64_t i = first; i <= last; ++i) numbers.push_back(static_cast<double>(i));
  return numbers;
}

// The result of a computation of these tensors.
template <class Record>
Elements computed(const std::vector<HostTensor>& tensors, const Record& record) {
  Program program;
  std::vector<Value> values;
  for (const HostTensor& each : tensors) values.push_back({&program, program.input(InputKind::kBatch, "x", each.type)});
  program.output("y", record(values).id);
  const HostTensor got = run_plan_once(program, tensors, {}, pool_of(1)).outputs[0];
  Elements numbers;
  for (int64_t i = 0; i < got.size(); ++i) numbers.push_back(got[i]);
  return numbers;
}

void expect_near(const Elements& got, const Elements& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i)
    if (std::isnan(want[i]))
      EXPECT_TRUE(std::isnan(got[i])) << i;
    else
      EXPECT_NEAR(got[i], want[i], 1e-5) << i;
}

using Values = const std::vector<Value>&;

Elements max_pool(const Shape& shape, const Elements& x, const Pooling& pool) {
  return computed({row_of(shape, x)}, [&](Values in) {
    return ops::max_pool(in[0], std::vector<Pooling>(static_cast<size_t>(shape.rank() - 2), pool));
  });
}

Elements avg_pool(const Shape& shape, const Elements& x, const Pooling& pool, bool count_padding) {
  return computed({row_of(shape, x)}, [&](Values in) {
    return ops::avg_pool(in[0], std::vector<Pooling>(static_cast<size_t>(shape.rank() - 2), pool), count_padding);
  });
}

TEST(Windows, PaddingIsNeverTheMaximum) {
  Elements negative;
  for (const double number : counted(1, 16)) negative.push_back(-number);
  expect_near(max_pool({1, 1, 4, 4}, negative, {.size = 3, .stride = 2, .padding = 1}), {-1, -2, -5, -6});
}

TEST(Windows, NanIsTheMaximum) {
  expect_near(max_pool({1, 1, 4}, {1, kNan, 3, 2}, {.size = 2, .stride = 2}), {kNan, 3});
  expect_near(max_pool({1, 1, 4}, {kNan, 1, 3, 2}, {.size = 2, .stride = 2}), {kNan, 3});
}

TEST(Windows, CeilModeAddsOnlyWindowsThatBeginInside) {
  expect_near(max_pool({1, 1, 5}, counted(1, 5), {.size = 2, .stride = 2, .ceil_mode = true}), {2, 4, 5});
  expect_near(max_pool({1, 1, 4}, counted(1, 4), {.size = 2, .stride = 3, .padding = 1, .ceil_mode = true}), {1, 4});
  expect_near(max_pool({1, 1, 2}, {1, 2}, {.size = 3, .stride = 2, .ceil_mode = true}), {2});
}

TEST(Windows, GradientOfTheMaximumGoesToTheFirst) {
  const Pooling pool{.size = 2, .stride = 2};
  expect_near(computed({row_of({1, 1, 4}, {5, 5, 1, 2}), row_of({1, 1, 2}, {3, 7})},
                       [&](Values in) {
                         const Value y = ops::max_pool(in[0], std::span(&pool, 1));
                         return differentiate(y, in[1], std::span(in).first(1))[0];
                       }),
              {3, 0, 0, 7});
}

TEST(Windows, AverageCountsThePaddingButNotWhatCeilModeAdds) {
  const Pooling pool{.size = 3, .stride = 2, .padding = 1, .ceil_mode = true};
  expect_near(avg_pool({1, 1, 4, 4}, counted(1, 16), pool, true),
              {1.555556, 3.333333, 2, 6.333333, 11, 6, 4.5, 7.5, 4});
  expect_near(avg_pool({1, 1, 4, 4}, counted(1, 16), pool, false), {3.5, 5, 6, 9.5, 11, 12, 13.5, 15, 16});
}

TEST(Windows, MeansOf16BitsDoNotOverflow) {
  const Elements x(4096, 100);
  const Pooling whole{.size = 64, .stride = 64};
  const auto mean_of = [&](const auto& record) {
    return computed({row_of({1, 1, 64, 64}, x)},
                    [&](Values in) { return ops::cast(record(ops::cast(in[0], DType::kF16)), DType::kF32); });
  };
  expect_near(mean_of([&](Value v) { return ops::avg_pool(v, std::array{whole, whole}); }), {100});
  expect_near(mean_of([](Value v) { return ops::mean(v); }), {100});
}

TEST(Windows, GradientOfMinusInfinityGoesToTheFirst) {
  const Pooling pool{.size = 2, .stride = 2};
  expect_near(computed({row_of({1, 1, 4}, {-kInfinite, -kInfinite, 1, 2}), row_of({1, 1, 2}, {3, 7})},
                       [&](Values in) {
                         const Value y = ops::max_pool(in[0], std::span(&pool, 1));
                         return differentiate(y, in[1], std::span(in).first(1))[0];
                       }),
              {3, 0, 0, 7});
}

TEST(Windows, AveragesOfOneColumnKeepTheirShape) {
  const Pooling ceiled{.size = 2, .stride = 2, .ceil_mode = true};
  expect_near(avg_pool({1, 1, 3, 2}, counted(1, 6), ceiled, true), {2.5, 5.5});
  const Pooling padded{.size = 3, .stride = 1, .padding = 1};
  expect_near(avg_pool({1, 1, 3, 1}, counted(1, 3), padded, false), {1.5, 2, 2.5});
}

TEST(Windows, GradientOfFourGoesToTheFirstOrTheLastNan) {
  const std::vector<Pooling> pools(2, {.size = 2, .stride = 2});
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16})
    expect_near(computed({row_of({1, 1, 2, 8}, {3, 3, kNan, 1, 5, 6, -kInfinite, -kInfinite,  //
                                                3, 3, kNan, 2, 6, 6, -kInfinite, -kInfinite}),
                          row_of({1, 1, 1, 4}, {1, 2, 3, 4})},
                         [&](Values in) {
                           const Value x = ops::cast(in[0], dtype), grad = ops::cast(in[1], dtype);
                           return ops::cast(differentiate(ops::max_pool(x, pools), grad, {&x, 1})[0], DType::kF32);
                         }),
                {1, 0, 0, 0, 0, 3, 4, 0,  //
                 0, 0, 2, 0, 0, 0, 0, 0});
}

TEST(Windows, AdaptiveAveragesMayOverlap) {
  const auto adaptive = [](const Elements& x, int64_t size) {
    return computed({row_of({1, 1, static_cast<int64_t>(x.size())}, x)},
                    [&](Values in) { return ops::adaptive_avg_pool(in[0], std::span(&size, 1)); });
  };
  expect_near(adaptive(counted(1, 5), 3), {1.5, 3, 4.5});
  expect_near(adaptive(counted(1, 7), 3), {2, 4, 6});
}

TEST(Windows, GradientOfAnAdaptiveMaximumGoesToTheFirst) {
  const int64_t size = 3;
  expect_near(computed({row_of({1, 1, 5}, {2, 2, 2, 1, 2}), row_of({1, 1, 3}, {1, 10, 100})},
                       [&](Values in) {
                         const Value y = ops::adaptive_max_pool(in[0], std::span(&size, 1));
                         return differentiate(y, in[1], std::span(in).first(1))[0];
                       }),
              {1, 10, 0, 0, 100});
}

// A window of an adaptive average that holds an infinite element does not reach its neighbours.
TEST(Windows, AdaptiveAveragesKeepInfinityInItsWindows) {
  const int64_t size = 2;
  const auto means = computed({row_of({1, 1, 5}, {1, 2, 3, 4, kInfinite})},
                              [&](Values in) { return ops::adaptive_avg_pool(in[0], std::span(&size, 1)); });
  EXPECT_EQ(means, (Elements{2, kInfinite}));
}

// The number of nodes grows with the logarithm of the sizes.
TEST(Windows, AdaptivePoolingRecordsFewNodes) {
  const auto nodes_of = [](int64_t n, int64_t size) {
    Program program;
    const Value x{&program, program.input(InputKind::kBatch, "x", {DType::kF32, {1, 1, n, n}})};
    const std::array sizes{size, size};
    ops::adaptive_max_pool(x, sizes);
    ops::adaptive_avg_pool(x, sizes);
    return program.size();
  };
  EXPECT_LT(nodes_of(700, 300), 2 * nodes_of(7, 3));
}

TEST(Windows, InterpolationIsThatOfPyTorch) {
  const auto upsampled = [](const Elements& x, int64_t size, const ops::UpsampleOptions& options) {
    return computed({row_of({1, 1, static_cast<int64_t>(x.size())}, x)},
                    [&](Values in) { return ops::upsample(in[0], std::span(&size, 1), options); });
  };
  expect_near(upsampled({0, 10}, 4, {.linear = true}), {0, 2.5, 7.5, 10});
  expect_near(upsampled({0, 10}, 4, {.linear = true, .align_corners = true}), {0, 3.333333, 6.666667, 10});
  expect_near(upsampled({1, 2, 3}, 5, {}), {1, 1, 2, 2, 3});
}

TEST(Windows, TransposedConvolutionIsThatOfPyTorch) {
  // stride 2, padding 1, output_padding 1
  const Window window{.stride = 2, .before = 1, .after = 1};
  const int64_t size = 6;
  expect_near(computed({row_of({1, 1, 3}, {1, 2, 3}), row_of({1, 1, 3}, {1, 2, 4})},
                       [&](Values in) {
                         return ops::conv_transpose(in[0], in[1], std::span(&window, 1), std::span(&size, 1));
                       }),
              {2, 6, 4, 11, 6, 12});
}

}  // namespace
}  // namespace runner::backends::testing
