// Convolutions by each of their implementations, compared with the reference loops; the same bits
// for any number of threads.
#include <cmath>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/ir/windows.h"
#include "backends/kernels/kernel_choices.h"
#include "tests/backends/kernels_harness.h"

namespace runner::backends {
namespace {

struct ConvCase {
  Shape x, w;
  std::vector<Window> windows;
  int64_t groups = 1;
  bool has_onednn_x = true;  // its gradient of x, too
};

constexpr Window kSame{.before = 1, .after = 1}, kHalved{.stride = 2, .before = 1, .after = 1};

const ConvCase kConvCases[] = {
    {{9, 16, 12, 14}, {24, 16, 3, 3}, {kSame, kSame}},
    {{6, 32, 15, 16}, {32, 32, 3, 3}, {kHalved, kHalved}},  // windows do not reach the last column
    {{2, 32, 24, 24}, {32, 32, 3, 3}, {{.dilation = 2}, {.dilation = 3, .before = 2, .after = 1}}},
    {{17, 32, 9, 9}, {64, 32, 1, 1}, {{}, {}}},
    {{15, 32, 17, 17}, {64, 32, 1, 1}, {{.stride = 2}, {.stride = 2}}},
    {{4, 32, 12, 12}, {64, 16, 3, 3}, {kSame, kSame}, 2},
    {{8, 64, 40, 40}, {64, 1, 3, 3}, {kSame, kSame}, 64},
    {{16, 16, 200}, {32, 16, 5}, {{.before = 2, .after = 2}}},
    {{2, 3, 64, 64},
     {16, 3, 7, 7},
     {{.stride = 2, .before = 3, .after = 3}, {.stride = 2, .before = 3, .after = 3}},
     1,
     false},
    {{33, 20, 4, 4}, {24, 20, 3, 3}, {kSame, kSame}},
    // Steps of several samples, and what is left of the batch; blocks of 16 channels, which our own loops convert.
    {{35, 64, 8, 8}, {32, 64, 3, 3}, {kHalved, kHalved}},
    {{48, 48, 9, 5}, {48, 48, 3, 3}, {kHalved, kHalved}},
    // Few samples, whose channels are cut into pieces.
    {{1, 64, 56, 56}, {64, 64, 3, 3}, {kHalved, kHalved}},
    {{3, 48, 20, 20}, {32, 48, 3, 3}, {kHalved, kHalved}},
    {{1, 64, 64, 64}, {64, 1, 3, 3}, {kSame, kSame}, 64},
};

// Windows of 3 × 3, with enough channels and tiles of 2 × 2 windows.
const ConvCase kWinogradCases[] = {
    {{5, 32, 13, 17}, {40, 32, 3, 3}, {kSame, kSame}},  // tiles reach beyond the last row and column
    {{4, 35, 20, 22}, {33, 35, 3, 3}, {{}, {.before = 2}}},
    {{2, 32, 24, 20}, {48, 32, 3, 3}, {{.before = 4, .after = 5}, {.before = 3, .after = 1}}},
    {{260, 32, 2, 2}, {32, 32, 3, 3}, {kSame, kSame}},  // one tile each
    {{260, 32, 3, 3}, {32, 32, 3, 3}, {{}, {}}},        // one window each
    {{2, 32, 32, 36}, {32, 32, 3, 3}, {kSame, kSame}},  // sums of several parts
};

// Too few channels, or too little work, for both.
const ConvCase kSmallCases[] = {
    {{1, 2, 30, 40}, {3, 2, 3, 3}, {kSame, kSame}},
    {{3, 4, 7, 9}, {6, 2, 3, 2}, {kHalved, kSame}, 2},
    {{2, 3, 16, 16}, {5, 3, 1, 1}, {{}, {}}},
    // Rows of windows that are cut into blocks.
    {{2, 2, 70000}, {3, 2, 7}, {{.before = 3, .after = 3}}},
    {{1, 2, 9001}, {3, 2, 64}, {{.stride = 2, .dilation = 3, .before = 5}}},
    {{1, 4, 40000}, {2, 4, 1}, {{}}},
    {{2, 2, 3, 9000}, {2, 2, 3, 5}, {kSame, {.stride = 3, .before = 2, .after = 2}}},
};

// The op, its operands and its result.
struct ConvCall {
  Op op;
  std::array<TensorType, 2> operands;
  TensorType result;
  std::vector<int64_t> attrs;

  KernelRequest request() const { return {op, operands, attrs, result}; }
};

ConvCall call_of(Op op, const ConvCase& c, DType dtype, bool wide) {
  std::vector<Window> windows = c.windows;
  Shape y = c.x.with(1, c.w[0]);
  for (size_t i = 0; i < windows.size(); ++i) {
    const int axis = static_cast<int>(2 + i);
    windows[i].size = c.w[axis];
    y = y.with(axis, windows[i].count(c.x[axis]));
  }
  ConvCall call{op, {}, {}, {c.groups, wide}};
  append_to(call.attrs, windows);
  const TensorType x{dtype, c.x}, w{dtype, c.w}, of_y{dtype, y};
  call.operands = op == Op::kConv ? std::array{x, w} : op == Op::kConvGradX ? std::array{of_y, w} : std::array{x, of_y};
  call.result = op == Op::kConv ? of_y : op == Op::kConvGradX ? x : w;
  if (wide) call.result.dtype = DType::kF32;
  return call;
}

enum class Implementation : uint8_t { kColumns, kOneDnn, kWinograd };

// The error is that of a short sum in f32: the transforms do not cancel large terms.
void expect_small_error(const TestTensor& got, const TestTensor& want, const std::string& what) {
  double squared_error = 0, squared = 0;
  for (int64_t i = 0; i < want.type.shape.elements(); ++i) {
    squared_error += (got[i] - want[i]) * (got[i] - want[i]);
    squared += want[i] * want[i];
  }
  EXPECT_LT(std::sqrt(squared_error / squared), 1e-6) << what;
}

void check_conv(const ConvCall& call, Implementation wanted) {
  const std::array operands = {random_tensor(call.operands[0], 1), random_tensor(call.operands[1], 2)};
  const TensorType types[] = {call.result};
  const auto want = run_kernel(prepare_reference_kernel(call.request()), operands, types);
  const Kernel kernel = prepare_kernel(call.request());
  const auto got = run_kernel(kernel, operands, types);
  const std::string what =
      fmt::format("{} of {} and {}", kernel.name, call.operands[0].to_string(), call.operands[1].to_string());
  // Without AVX-512, oneDNN has no fast kernels for some shapes, such as gradients of weights with dilation.
  if (wanted != Implementation::kOneDnn || onednn_limit().avx512) {
    const auto is_named = [&](std::string_view part) { return kernel.name.find(part) != std::string::npos; };
    const Implementation used = is_named("winograd") ? Implementation::kWinograd
                                : is_named("dnnl")   ? Implementation::kOneDnn
                                                     : Implementation::kColumns;
    EXPECT_EQ(used, wanted) << what;
  }
  const bool narrow = size_of(call.result.dtype) == 2;
  // Terms of a sum, at most: those of the gradient of the weights are the windows of all samples.
  const TensorType& y = call.op == Op::kConv ? call.result : call.operands[call.op == Op::kConvGradX ? 0 : 1];
  const int64_t windows = y.shape.elements() / y.shape[1];
  const auto terms = static_cast<double>(std::max<int64_t>(3000, call.op == Op::kConvGradW ? windows : 0));
  expect_close(got[0], want[0], narrow ? 1.01 : 1, 8 * 0x1p-24 * terms, what);
  if (wanted == Implementation::kWinograd && !narrow) expect_small_error(got[0], want[0], what);
  for (const int threads : {2, 4}) {
    EXPECT_TRUE(run_kernel(kernel, operands, types, threads)[0].same_bits(got[0])) << what << " on " << threads;
  }
  EXPECT_TRUE(run_kernel(prepare_kernel(call.request()), operands, types)[0].same_bits(got[0])) << what;
}

// Of a case in kConvCases.
Implementation implementation_of(Op op, const ConvCase& c) {
  return op != Op::kConvGradX || c.has_onednn_x ? Implementation::kOneDnn : Implementation::kColumns;
}

constexpr Op kConvOps[] = {Op::kConv, Op::kConvGradX, Op::kConvGradW};

TEST(ConvolutionKernels, MatchTheReference) {
  for (const ConvCase& c : kConvCases)
    for (const Op op : kConvOps) check_conv(call_of(op, c, DType::kF32, false), implementation_of(op, c));
}

TEST(ConvolutionKernels, WithFewerMultiplicationsMatchTheReference) {
  for (const ConvCase& c : kWinogradCases)
    for (const Op op : kConvOps) check_conv(call_of(op, c, DType::kF32, false), Implementation::kWinograd);
}

TEST(ConvolutionKernels, WithFewerMultiplicationsOf16BitsMatchTheReference) {
  const bool is_native = bf16_products_in_use() == Bf16Products::kNative;
  const ConvCase& c = kWinogradCases[0];
  for (const Op op : kConvOps)
    for (const bool wide : {false, true}) {
      check_conv(call_of(op, c, DType::kF16, wide), Implementation::kWinograd);
      check_conv(call_of(op, c, DType::kBf16, wide), is_native ? Implementation::kOneDnn : Implementation::kWinograd);
    }
}

TEST(ConvolutionKernels, WithFewerMultiplicationsHaveEveryInstructionSet) {
  EveryIsa().run([](Isa) {
    for (const Op op : kConvOps)
      check_conv(call_of(op, kWinogradCases[0], DType::kF32, false), Implementation::kWinograd);
  });
}

TEST(ConvolutionKernels, OfBf16MatchTheReference) {
  const bool is_native = bf16_products_in_use() == Bf16Products::kNative;
  for (const ConvCase& c : kConvCases)
    for (const Op op : kConvOps)
      for (const bool wide : {false, true})
        check_conv(call_of(op, c, DType::kBf16, wide), is_native ? implementation_of(op, c) : Implementation::kColumns);
}

TEST(ConvolutionKernels, OfSmallAndLongRowsMatchTheReference) {
  for (const ConvCase& c : kSmallCases)
    for (const Op op : kConvOps)
      for (const DType dtype : {DType::kF32, DType::kF64, DType::kF16, DType::kBf16})
        check_conv(call_of(op, c, dtype, false), Implementation::kColumns);
}

// The columns of a long row are never made at once.
TEST(ConvolutionKernels, ScratchOfALongRowIsSmall) {
  const ConvCase c{{1, 256, 20000}, {8, 256, 9}, {{.before = 4, .after = 4}}};
  for (const Op op : kConvOps) {
    const Kernel kernel = prepare_kernel(call_of(op, c, DType::kF64, false).request());
    EXPECT_LT(kernel.scratch_bytes, size_t{64} << 20) << kernel.name;  // the columns are 369 MB
  }
}

}  // namespace
}  // namespace runner::backends
