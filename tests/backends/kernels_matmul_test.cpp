#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/kernels/kernel_choices.h"
#include "backends/kernels/matmul.h"
#include "backends/runtime/cpu_features.h"
#include "schema/base/error.h"
#include "tests/backends/kernels_harness.h"

namespace runner::backends {
namespace {

struct Product {
  std::array<TensorType, 2> operands;
  TensorType c;
  std::array<int64_t, 3> attrs;

  KernelRequest request() const { return {Op::kMatmul, operands, attrs, c}; }
};

Product product(int64_t batch, int64_t m, int64_t n, int64_t k, bool ta, bool tb, DType dtype) {
  const auto matrix = [&](int64_t rows, int64_t cols) {
    return TensorType{dtype, batch > 0 ? Shape{batch, rows, cols} : Shape{rows, cols}};
  };
  return {{ta ? matrix(k, m) : matrix(m, k), tb ? matrix(n, k) : matrix(k, n)}, matrix(m, n), {ta, tb, false}};
}

// bf16 operands with an f32 result.
Product wide_product(int64_t batch, int64_t m, int64_t n, int64_t k, bool ta, bool tb) {
  Product p = product(batch, m, n, k, ta, tb, DType::kBf16);
  p.attrs[2] = true;
  p.c.dtype = DType::kF32;
  return p;
}

std::string text(const Product& p) {
  return fmt::format("{}{} × {}{}", p.operands[0].to_string(), p.attrs[0] ? "ᵀ" : "", p.operands[1].to_string(),
                     p.attrs[1] ? "ᵀ" : "");
}

// Error bound of a dot product of k terms of unit variance: four times the worst case observed.
double bound(DType dtype, int64_t k) {
  const double unit = dtype == DType::kF64 ? 0x1p-53 : dtype == DType::kF32 ? 0x1p-24 : 0;
  return 8 * unit * static_cast<double>(k);
}

void check(const Product& p) {
  const std::array operands = {random_tensor(p.operands[0], 1), random_tensor(p.operands[1], 2)};
  const TensorType types[] = {p.c};
  const auto want = run_kernel(prepare_reference_kernel(p.request()), operands, types);
  const Kernel kernel = prepare_kernel(p.request());
  const auto got = run_kernel(kernel, operands, types);
  // A 16-bit result is rounded once more than the f32 sum.
  const bool narrow = size_of(p.c.dtype) == 2;
  const int64_t inner = p.operands[0].shape.elements() * std::max<int64_t>(1, p.c.shape.back()) / p.c.shape.elements();
  expect_close(got[0], want[0], narrow ? 1.01 : 1, bound(narrow ? DType::kF32 : p.c.dtype, inner),
               text(p) + " by " + kernel.name);
  for (const int threads : {2, 4}) {
    EXPECT_TRUE(run_kernel(kernel, operands, types, threads)[0].same_bits(got[0])) << text(p) << " on " << threads;
  }
}

// The result overwrites the third operand.
TestTensor run_onto_addend(const Kernel& kernel, const std::array<TestTensor, 3>& operands, const TensorType& type) {
  TestTensor c(type, [&](int64_t i) { return operands[2][i]; });
  std::byte* in[] = {operands[0].buffer->data(), operands[1].buffer->data(), c.buffer->data()};
  std::byte* const out[] = {c.buffer->data()};
  TestBuffer scratch(kernel.scratch_bytes);
  kernel.run(kernel.params.get(), {.operands = in, .results = out, .scratch = scratch.data(), .pool = pool_of(2)});
  return c;
}

void check_added(const Product& p) {
  const std::array types = {p.operands[0], p.operands[1], p.c};
  const KernelRequest request{Op::kMatmul, types, p.attrs, p.c};
  const std::array operands = {random_tensor(types[0], 1), random_tensor(types[1], 2), random_tensor(types[2], 3)};
  const TensorType results[] = {p.c};
  const Kernel kernel = prepare_kernel(request);
  const auto got = run_kernel(kernel, operands, results);
  const auto want = run_kernel(prepare_reference_kernel(request), operands, results);
  const int64_t inner = p.operands[0].shape.elements() * std::max<int64_t>(1, p.c.shape.back()) / p.c.shape.elements();
  expect_close(got[0], want[0], 1, bound(p.c.dtype, inner + 1), text(p) + " by " + kernel.name);
  EXPECT_TRUE(kernel.name.ends_with(".add")) << kernel.name;
  EXPECT_TRUE(run_kernel(kernel, operands, results, 4)[0].same_bits(got[0])) << text(p);
  EXPECT_TRUE(run_onto_addend(kernel, operands, p.c).same_bits(got[0])) << text(p);
}

class Matmul : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(DTypes, Matmul, ::testing::Values(DType::kF32, DType::kF64, DType::kBf16, DType::kF16),
                         [](const auto& param) { return std::string(name_of(param.param)); });

TEST_P(Matmul, MatchesTheReference) {
  constexpr int64_t kSizes[][4] = {{0, 1, 1, 1},    {0, 5, 3, 7},  {0, 32, 128, 64}, {0, 32, 10, 128},
                                   {0, 33, 65, 17}, {3, 8, 9, 10}, {0, 1, 300, 20},  {0, 300, 1, 20}};
  for (const auto& [batch, m, n, k] : kSizes)
    for (const bool ta : {false, true})
      for (const bool tb : {false, true}) check(product(batch, m, n, k, ta, tb, GetParam()));
}

TEST(MatmulKernels, WideProductsMatchTheReference) {
  constexpr int64_t kSizes[][4] = {{0, 5, 3, 7},       {0, 32, 128, 64},  {3, 8, 9, 10},
                                   {0, 150, 200, 100}, {0, 20, 700, 200}, {0, 33, 700, 131},
                                   {3, 129, 131, 127}, {2, 250, 90, 100}, {0, 256, 128, 1024}};
  for (const auto& [batch, m, n, k] : kSizes)
    for (const bool ta : {false, true})
      for (const bool tb : {false, true}) check(wide_product(batch, m, n, k, ta, tb));
}

// By rows, by columns or along the inner axis, with tiles of one size or two, and with operands and results that tiles
// access through copies.
TEST_P(Matmul, LargeProductsAreTiled) {
  constexpr int64_t kSizes[][4] = {{0, 150, 200, 100}, {0, 20, 700, 200}, {0, 33, 700, 131}, {0, 200, 15, 1000},
                                   {3, 129, 131, 127}, {2, 250, 90, 100}, {0, 96, 50, 2100}};
  for (const auto& [batch, m, n, k] : kSizes)
    for (const bool ta : {false, true})
      for (const bool tb : {false, true}) check(product(batch, m, n, k, ta, tb, GetParam()));
}

// One row or one column, with sizes beyond whole vectors, cache lines and blocks, and matrices cut for several threads.
TEST_P(Matmul, VectorTimesMatrix) {
  constexpr int64_t kSizes[][2] = {{1, 1},   {3, 5},    {4, 4},    {15, 17},   {16, 64},  {31, 33},
                                   {40, 47}, {64, 127}, {131, 70}, {700, 131}, {2100, 70}};
  EveryIsa isas;
  isas.run([&](Isa isa) {
    SCOPED_TRACE(name_of(isa));
    for (const auto& [n, k] : kSizes)
      for (const bool ta : {false, true})
        for (const bool tb : {false, true}) {
          check(product(0, 1, n, k, ta, tb, GetParam()));
          check(product(0, n, 1, k, ta, tb, GetParam()));
          if (GetParam() == DType::kBf16) check(wide_product(0, 1, n, k, ta, tb));
        }
  });
}

// The chains of one row are those of the tiles.
TEST(MatmulKernels, OneRowHasTheBitsOfManyRows) {
  EveryIsa isas;
  isas.run([](Isa isa) {
    SCOPED_TRACE(name_of(isa));
    for (const int64_t cols : {5, 77, 700})
      for (const int64_t inner : {3, 150, 301})
        for (const bool tb : {false, true}) {
          const Product two = product(0, 2, cols, inner, false, tb, DType::kF32),
                        one = product(0, 1, cols, inner, false, tb, DType::kF32);
          const std::array operands = {random_tensor(two.operands[0], 1), random_tensor(two.operands[1], 2)};
          const TestTensor row(one.operands[0], [&](int64_t i) { return operands[0][i]; });
          const TensorType of_two[] = {two.c}, of_one[] = {one.c};
          const auto want = run_kernel(prepare_kernel(two.request()), operands, of_two);
          const auto got = run_kernel(prepare_kernel(one.request()), {{row, operands[1]}}, of_one);
          for (int64_t i = 0; i < cols; ++i) ASSERT_EQ(got[0][i], want[0][i]) << text(one) << ": " << i;
        }
  });
}

// Ranks compute some rows of Aᵀ B instead of all.
TEST(MatmulKernels, SomeRowsHaveTheBitsOfAll) {
  constexpr int64_t kRows = 1030, kFirst = 347, kSome = 341;
  int64_t uniform = 0;
  for (const int64_t cols : {1024, 1030})
    for (const int64_t inner : {1, 4, 60}) {
      const Product all = product(0, kRows, cols, inner, true, false, DType::kF32),
                    some = product(0, kSome, cols, inner, true, false, DType::kF32);
      if (!has_uniform_rows(kRows, cols, inner)) continue;
      ++uniform;
      const std::array operands = {random_tensor(all.operands[0], 1), random_tensor(all.operands[1], 2)};
      const TestTensor part(some.operands[0],
                            [&](int64_t i) { return operands[0][i / kSome * kRows + kFirst + i % kSome]; });
      const TensorType of_all[] = {all.c}, of_some[] = {some.c};
      const auto want = run_kernel(prepare_kernel(all.request()), operands, of_all);
      const auto got = run_kernel(prepare_kernel(some.request()), {{part, operands[1]}}, of_some);
      for (int64_t i = 0; i < kSome * cols; ++i)
        ASSERT_EQ(got[0][i], want[0][kFirst * cols + i]) << text(some) << ": " << i;
    }
  EXPECT_GE(uniform, 2);
}

TEST(MatmulKernels, AddToAnotherTensor) {
  constexpr int64_t kSizes[][4] = {{0, 5, 3, 7},       {0, 3, 4, 0},       {3, 8, 9, 10},     {0, 1, 70, 33},
                                   {0, 150, 200, 100}, {0, 20, 700, 200},  {0, 33, 700, 131}, {3, 129, 131, 127},
                                   {0, 128, 1024, 32}, {0, 256, 128, 1024}};
  for (const auto& [batch, m, n, k] : kSizes)
    for (const bool ta : {false, true})
      for (const bool tb : {false, true}) {
        check_added(product(batch, m, n, k, ta, tb, DType::kF32));
        check_added(product(batch, m, n, k, ta, tb, DType::kF64));
        check_added(wide_product(batch, m, n, k, ta, tb));
      }
}

TEST_P(Matmul, EmptySums) {
  for (const Product& p : {product(0, 3, 4, 0, false, false, GetParam()), product(0, 0, 4, 2, false, false, GetParam()),
                           product(0, 3, 0, 2, false, true, GetParam())}) {
    const std::array operands = {random_tensor(p.operands[0], 1), random_tensor(p.operands[1], 2)};
    const TensorType types[] = {p.c};
    const auto got = run_kernel(prepare_kernel(p.request()), operands, types);
    for (int64_t i = 0; i < p.c.shape.elements(); ++i) EXPECT_EQ(got[0][i], 0);
  }
}

TEST(MatmulKernels, OneKernelRunsOnSeveralThreadsAtOnce) {
  const Product p = product(0, 64, 64, 64, false, true, DType::kF32);
  const std::array operands = {random_tensor(p.operands[0], 1), random_tensor(p.operands[1], 2)};
  const Kernel kernel = prepare_kernel(p.request());
  const TensorType types[] = {p.c};
  const auto want = run_kernel(kernel, operands, types);
  std::vector<std::jthread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) EXPECT_TRUE(run_kernel(kernel, operands, types)[0].same_bits(want[0]));
    });
}

TEST(MatmulKernels, IntegersAreRefused) {
  try {
    prepare_kernel(product(0, 2, 2, 2, false, false, DType::kI64).request());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "matmul: unsupported operands i64; cast to a float dtype");
  }
}

TEST(MatmulKernels, Bf16ChoiceDependsOnVendorAndFeatures) {
  CpuFeatures zen5{.vendor = "AuthenticAMD",
                   .brand = "",
                   .family = 26,
                   .model = 2,
                   .avx2 = true,
                   .fma = true,
                   .avx512 = true,
                   .avx512_bf16 = true};
  EXPECT_EQ(bf16_products(zen5), Bf16Products::kNative);
  EXPECT_EQ(zen5.to_string(), "AuthenticAMD family 26 model 2: avx2 fma avx512 avx512_bf16");
  CpuFeatures sapphire_rapids = zen5;
  sapphire_rapids.vendor = "GenuineIntel";
  EXPECT_EQ(bf16_products(sapphire_rapids), Bf16Products::kEmulated);
  sapphire_rapids.amx_bf16 = true;
  EXPECT_EQ(bf16_products(sapphire_rapids), Bf16Products::kNative);
  CpuFeatures zen3 = zen5;
  zen3.avx512 = zen3.avx512_bf16 = false;
  EXPECT_EQ(bf16_products(zen3), Bf16Products::kEmulated);
}

// Values in [−2, 2], as bits of bf16.
uint16_t bf16_value(int64_t i) {
  return f32_to_bf16(static_cast<float>(std::sin(static_cast<double>(i) * 0.73) * 2));
}

// C += A B, where the elements of A and B are pairs. B by rows or by columns, packed or not.
TEST(PairLoops, ProductsAreThoseOfThePlainLoop) {
  const PairLoops* const pairs = pair_loops();
  if (pairs == nullptr) GTEST_SKIP() << "this CPU has no fast products of pairs";
  for (const auto& [rows, cols, inner] :
       {std::tuple<int64_t, int64_t, int64_t>{1, 1, 1}, {12, 32, 5}, {25, 70, 300}, {13, 129, 37}}) {
    std::vector<Bf16Pair> a(static_cast<size_t>(rows * inner)), b(static_cast<size_t>(cols * inner));
    for (size_t i = 0; i < a.size(); ++i) a[i] = bf16_value(2 * i) | static_cast<Bf16Pair>(bf16_value(2 * i + 1)) << 16;
    for (size_t i = 0; i < b.size(); ++i) b[i] = bf16_value(3 * i) | static_cast<Bf16Pair>(bf16_value(5 * i)) << 16;
    const auto product = [](Bf16Pair x, Bf16Pair y) {
      const auto value = [](Bf16Pair pair, int half) {
        return static_cast<double>(bf16_to_f32(static_cast<uint16_t>(pair >> 16 * half)));
      };
      return value(x, 0) * value(y, 0) + value(x, 1) * value(y, 1);
    };
    const auto at = [](int64_t i) { return static_cast<size_t>(i); };
    std::vector<Bf16Pair> panels(at(pairs->products.panel_elems(cols, inner))),
        packed(at(pairs->products.packed_elems(cols, inner)));
    for (const bool by_columns : {false, true})
      for (const bool is_packed : {false, true}) {
        const int64_t k_stride = by_columns ? 1 : cols, col_stride = by_columns ? inner : 1;
        pairs->products.pack(packed.data(), b.data(), cols, inner, k_stride, col_stride);
        std::vector<float> c(at(rows * cols), 1);
        pairs->products.multiply({.c = c.data(),
                                  .a = a.data(),
                                  .b = b.data(),
                                  .panels = is_packed ? packed.data() : panels.data(),
                                  .c_stride = cols,
                                  .a_row_stride = inner,
                                  .a_k_stride = 1,
                                  .b_k_stride = k_stride,
                                  .b_col_stride = col_stride,
                                  .rows = rows,
                                  .cols = cols,
                                  .inner = inner,
                                  .add = true,
                                  .packed_inner = is_packed ? inner : 0});
        for (int64_t i = 0; i < rows; ++i)
          for (int64_t j = 0; j < cols; ++j) {
            double want = 1, size = 1;
            for (int64_t k = 0; k < inner; ++k) {
              const double term = product(a[at(i * inner + k)], b[at(k * k_stride + j * col_stride)]);
              want += term;
              size += std::abs(term);
            }
            EXPECT_NEAR(c[at(i * cols + j)], want, size * 1e-6) << i << ", " << j;
          }
      }
  }
}

TEST(PairLoops, RoundsToNearestEven) {
  const PairLoops* const pairs = pair_loops();
  if (pairs == nullptr) GTEST_SKIP() << "this CPU has no fast products of pairs";
  std::vector<float> x;
  for (uint32_t i = 0; i < 100'003; ++i) x.push_back(std::bit_cast<float>(0x3f000000u + i * 4099u % 0x01000000u));
  for (const float value : {0.0f, -0.0f, 1.00390625f, 1.01171875f, 3.4e38f, INFINITY, -INFINITY, NAN})
    x.push_back(value);
  std::vector<uint16_t> rounded(x.size() + 1, 0xabcd);
  pairs->round(rounded.data(), x.data(), 0.5f, static_cast<int64_t>(x.size()));
  for (size_t i = 0; i < x.size(); ++i) {
    const float got = bf16_to_f32(rounded[i]), want = bf16_to_f32(f32_to_bf16(0.5f * x[i]));
    EXPECT_TRUE(std::isnan(want) ? std::isnan(got) : std::bit_cast<uint32_t>(got) == std::bit_cast<uint32_t>(want))
        << x[i];
  }
  EXPECT_EQ(rounded.back(), 0xabcd);
}

TEST(PairLoops, InterleaveRows) {
  const PairLoops* const pairs = pair_loops();
  if (pairs == nullptr) GTEST_SKIP() << "this CPU has no fast products of pairs";
  std::vector<uint16_t> first, second;
  for (int64_t i = 0; i < 77; ++i) first.push_back(bf16_value(i)), second.push_back(bf16_value(-i));
  std::vector<Bf16Pair> both(77), alone(77);
  pairs->interleave(both.data(), first.data(), second.data(), 77);
  pairs->interleave(alone.data(), first.data(), nullptr, 77);
  for (size_t i = 0; i < 77; ++i) {
    EXPECT_EQ(both[i], first[i] | static_cast<Bf16Pair>(second[i]) << 16);
    EXPECT_EQ(alone[i], first[i]);
  }
}

TEST(MatmulKernels, NamesDescribeTheKernel) {
  EXPECT_EQ(prepare_kernel(product(0, 2, 2, 2, false, false, DType::kF32).request()).name, "matmul.f32");
  EXPECT_EQ(prepare_kernel(product(0, 300, 300, 300, false, false, DType::kF32).request()).name, "matmul.dnnl.f32");
  EXPECT_EQ(prepare_kernel(product(0, 3000, 10, 300, false, false, DType::kF32).request()).name, "matmul.f32");
  EXPECT_EQ(prepare_kernel(product(0, 300, 2048, 300, false, false, DType::kF32).request()).name,
            onednn_limit().avx512 ? "matmul.dnnl.f32" : "matmul.f32");
  EXPECT_EQ(prepare_kernel(product(0, 1, 300, 30, false, false, DType::kF32).request()).name, "matvec.f32");
  EXPECT_EQ(prepare_kernel(product(0, 300, 1, 30, false, false, DType::kBf16).request()).name, "matvec.bf16");
  EXPECT_EQ(prepare_kernel(product(0, 2, 2, 2, false, false, DType::kF16).request()).name, "matmul.f16_as_f32");
  EXPECT_EQ(prepare_kernel(product(0, 2, 2, 2, false, false, DType::kF64).request()).name, "matmul.f64");
  EXPECT_EQ(prepare_kernel(wide_product(0, 2, 2, 2, false, false).request()).name, "matmul.bf16_as_f32.wide");
}

}  // namespace
}  // namespace runner::backends
