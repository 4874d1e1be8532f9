// All ops that are not element-wise: each case against the reference, on every instruction set, bit-identical for any
// number of threads.

#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/ir/op_def.h"
#include "backends/ir/program.h"
#include "schema/base/error.h"
#include "tests/backends/kernels_harness.h"

namespace runner::backends {
namespace {

struct KernelCase {
  Op op;
  std::vector<TensorType> operands;
  std::vector<int64_t> attrs;
  double ulps = 1;      // bound for random data of any magnitude
  double absolute = 0;  // used if terms cancel
  TensorType requested{};
};

TensorType type_of(const KernelCase& c) {
  return result_type(c.op, c.operands, c.attrs, c.requested);
}

std::string text(const KernelCase& c) {
  std::string result = fmt::format("{}", name_of(c.op));
  for (const TensorType& type : c.operands) result += " " + type.to_string();
  return result + fmt::format(" [{}]", fmt::join(c.attrs, ", "));
}

// Labels, ids and indices are in range; all else is random.
std::vector<TestTensor> operands_of(const KernelCase& c) {
  std::vector<TestTensor> tensors;
  for (size_t k = 0; k < c.operands.size(); ++k) tensors.push_back(random_tensor(c.operands[k], k + 1, 2.0));
  const auto indices = [&](size_t k, int64_t size) {
    std::mt19937_64 rng(k + 10);
    tensors[k] =
        TestTensor(c.operands[k], [&](int64_t) { return static_cast<double>(rng() % static_cast<uint64_t>(size)); });
  };
  switch (c.op) {
    case Op::kGather:
    case Op::kScatterAdd:
    case Op::kIndexCopy: indices(1, c.operands[0].shape[static_cast<int>(c.attrs[0])]); break;
    case Op::kOneHot:
    case Op::kEmbeddingGrad: indices(0, c.attrs[0]); break;
    case Op::kEmbedding: indices(1, c.operands[0].shape[0]); break;
    case Op::kCrossEntropy:
    case Op::kCrossEntropyGrad: {
      indices(1, c.operands[0].shape[1]);
      const int64_t rows = c.operands[1].shape[0];
      if (rows > 2) tensors[1].set(2, static_cast<double>(c.attrs[0]));
      // Class weights must not be negative.
      const size_t weights = c.op == Op::kCrossEntropy ? 2 : 3;
      if (tensors.size() > weights)
        tensors[weights] = TestTensor(c.operands[weights], [](int64_t i) { return 0.25 * static_cast<double>(i % 9); });
      break;
    }
    default: break;
  }
  return tensors;
}

void check(const KernelCase& c) {
  const TensorType result = type_of(c);
  const KernelRequest request{c.op, c.operands, c.attrs, result};
  const std::vector<TestTensor> operands = operands_of(c);
  const TestTensor want = run_kernel(prepare_reference_kernel(request), operands, std::span(&result, 1))[0];
  std::vector<TestTensor> first;
  EveryIsa isas;
  isas.run([&](Isa isa) {
    const Kernel kernel = prepare_kernel(request);
    for (const int threads : {1, 2, 3, 4}) {
      const TestTensor got = run_kernel(kernel, operands, std::span(&result, 1), threads)[0];
      if (first.empty()) {
        expect_close(got, want, c.ulps, c.absolute, text(c));
        first.push_back(got);
      }
      ASSERT_TRUE(got.same_bits(first[0])) << text(c) << " on " << name_of(isa) << " with " << threads << " threads";
    }
  });
}

TensorType tensor(DType dtype, std::initializer_list<int64_t> dims) {
  return {dtype, Shape(dims)};
}

constexpr DType kFloats[] = {DType::kF32, DType::kF64, DType::kBf16, DType::kF16};
constexpr DType kNumbers[] = {DType::kF32, DType::kF64, DType::kBf16, DType::kF16, DType::kI32, DType::kI64};
constexpr DType kAll[] = {DType::kF32, DType::kF64, DType::kBf16, DType::kF16, DType::kI32, DType::kI64, DType::kBool};

// If terms cancel, one unit in the last place of the f64 terms is more than one of the result.
double cancellation(DType dtype, double terms) {
  return dtype == DType::kF64 ? 4 * terms * 0x1p-52 : 0x1p-22;
}

TEST(KernelOps, Reductions) {
  for (const DType dtype : kNumbers)
    for (const Op op : {Op::kSum, Op::kReduceMax, Op::kReduceMin}) {
      const auto run = [&](std::initializer_list<int64_t> dims, std::vector<int64_t> axes) {
        check({op, {tensor(dtype, dims)}, std::move(axes), 1, op == Op::kSum ? cancellation(dtype, 1000) : 0});
      };
      run({7}, {0});
      run({1}, {0});
      run({100003}, {0});
      run({33, 10}, {1});
      run({33, 10}, {0});
      run({5, 2000}, {1});
      run({700, 600}, {0});
      run({300, 3}, {0, 1});
      run({4, 5, 6, 7}, {0, 2});
      run({4, 5, 6, 7}, {1, 3});
      run({4, 1, 6}, {1});
      run({2, 3}, {});
      run({0, 3}, {1});
    }
  check({Op::kSum, {tensor(DType::kF32, {0, 3})}, {0}});
}

TEST(KernelOps, ReductionsOfSpecialValues) {
  constexpr double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();
  for (const DType dtype : kFloats)
    for (const int64_t n : {3, 100}) {
      const TensorType x = tensor(dtype, {n}), scalar = tensor(dtype, {});
      const int64_t axes[] = {0};
      const auto run = [&](Op op, double special) {
        const TestTensor data(x, [&](int64_t i) { return i == 2 ? special : -1.0; });
        const TensorType result = op == Op::kArgMax ? tensor(DType::kI64, {}) : scalar;
        return run_kernel(prepare_kernel({op, std::span(&x, 1), axes, result}), std::span(&data, 1),
                          std::span(&result, 1))[0][0];
      };
      EXPECT_TRUE(std::isnan(run(Op::kReduceMax, kNan)));
      EXPECT_TRUE(std::isnan(run(Op::kReduceMin, kNan)));
      EXPECT_EQ(run(Op::kReduceMax, -kInf), -1);
      EXPECT_EQ(run(Op::kReduceMin, -kInf), -kInf);
      EXPECT_EQ(run(Op::kReduceMax, kInf), kInf);
      EXPECT_TRUE(std::isnan(run(Op::kSum, kNan)));
      EXPECT_EQ(run(Op::kSum, kInf), kInf);
      EXPECT_EQ(run(Op::kArgMax, kNan), 2);
      EXPECT_EQ(run(Op::kArgMax, -kInf), 0);
    }
}

// A million equal numbers: a naive f32 sum is wrong in the fourth digit.
TEST(KernelOps, LongSumsArePrecise) {
  const TensorType x = tensor(DType::kF32, {1 << 20}), scalar = tensor(DType::kF32, {});
  const TestTensor data(x, [](int64_t) { return 0.1f; });
  const int64_t axes[] = {0};
  const double sum = run_kernel(prepare_kernel({Op::kSum, std::span(&x, 1), axes, scalar}), std::span(&data, 1),
                                std::span(&scalar, 1))[0][0];
  EXPECT_EQ(static_cast<float>(sum), static_cast<float>(0.1f * double{1 << 20}));
}

TEST(KernelOps, ArgMax) {
  for (const DType dtype : kNumbers) {
    check({Op::kArgMax, {tensor(dtype, {40, 10})}, {1}});
    check({Op::kArgMax, {tensor(dtype, {40, 10})}, {0}});
    check({Op::kArgMax, {tensor(dtype, {3, 100, 4})}, {1}});
    check({Op::kArgMax, {tensor(dtype, {1})}, {0}});
  }
}

TEST(KernelOps, Layout) {
  for (const DType dtype : kAll) {
    const auto requested = [&](std::initializer_list<int64_t> dims) { return TensorType{dtype, Shape(dims)}; };
    check({Op::kReshape, {tensor(dtype, {6, 4})}, {}, 0, 0, requested({8, 3})});
    for (const std::vector<int64_t>& axes :
         {std::vector<int64_t>{0, 1, 2}, {2, 1, 0}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}})
      check({Op::kPermute, {tensor(dtype, {37, 5, 41})}, axes, 0});
    check({Op::kPermute, {tensor(dtype, {300, 200})}, {1, 0}, 0});
    check({Op::kPermute, {tensor(dtype, {2, 3, 4, 5, 6})}, {4, 2, 0, 3, 1}, 0});
    check({Op::kPermute, {tensor(dtype, {})}, {}, 0});
    check({Op::kExpand, {tensor(dtype, {5, 1, 7})}, {}, 0, 0, requested({3, 5, 4, 7})});
    check({Op::kExpand, {tensor(dtype, {})}, {}, 0, 0, requested({3, 2})});
    check({Op::kExpand, {tensor(dtype, {6, 1})}, {}, 0, 0, requested({6, 500})});
    check({Op::kSlice, {tensor(dtype, {10, 9})}, {1, 8, 3, 0, 9, 2}, 0});
    check({Op::kSlice, {tensor(dtype, {10, 9})}, {4, 4, 1, 0, 9, 1}, 0});
    check({Op::kPad, {tensor(dtype, {3, 4})}, {1, 0, 2, 5}, 0});
    check({Op::kPad, {tensor(dtype, {0, 4})}, {1, 1, 0, 0}, 0});
    check({Op::kConcat, {tensor(dtype, {3, 4}), tensor(dtype, {2, 4}), tensor(dtype, {0, 4})}, {0}, 0});
    check({Op::kConcat, {tensor(dtype, {3, 4}), tensor(dtype, {3, 1})}, {1}, 0});
    check({Op::kConcat, {tensor(dtype, {3, 4, 5})}, {1}, 0});
  }
}

TEST(KernelOps, Indexing) {
  for (const DType dtype : kNumbers) {
    const TensorType ids = tensor(DType::kI64, {4, 3, 6});
    for (const int64_t axis : {0, 1, 2}) {
      check({Op::kGather, {tensor(dtype, {5, 3, 7}), ids}, {axis}, 0});
      check({Op::kScatterAdd, {tensor(dtype, {5, 3, 7}), ids, tensor(dtype, {4, 3, 6})}, {axis}, 3, 1e-6});
      const Shape shape{5, 3, 7};
      for (const int64_t n : {1, 4, 9})
        check({Op::kIndexCopy,
               {TensorType{dtype, shape}, tensor(DType::kI64, {n}),
                TensorType{dtype, shape.with(static_cast<int>(axis), n)}},
               {axis},
               0});
    }
    if (!is_float(dtype)) continue;
    check({Op::kEmbedding, {tensor(dtype, {50, 20}), tensor(DType::kI64, {4, 70})}, {}, 0});
    check({Op::kEmbeddingGrad, {tensor(DType::kI64, {400}), tensor(dtype, {400, 70})}, {30}, 1, 1e-5});
    check({Op::kEmbeddingGrad, {tensor(DType::kI64, {2, 3}), tensor(dtype, {2, 3, 5})}, {900}, 1, 1e-6});
  }
  check({Op::kOneHot, {tensor(DType::kI64, {3, 5})}, {7}, 0});
}

TEST(KernelOps, Softmax) {
  for (const DType dtype : kFloats)
    for (const auto& dims : {std::pair<int64_t, int64_t>{1, 1}, {33, 10}, {3, 1024}, {2, 5000}, {70, 257}, {400, 300}})
      for (const Op op : {Op::kSoftmax, Op::kLogSoftmax})
        check({op, {tensor(dtype, {dims.first, dims.second})}, {}, 4, dtype == DType::kF64 ? 1e-15 : 2e-7});
}

TEST(KernelOps, CrossEntropy) {
  for (const DType dtype : kFloats)
    for (const auto& [rows, classes] : {std::pair<int64_t, int64_t>{1, 2}, {33, 10}, {5, 1500}, {300, 100}})
      for (const double smoothing : {0.0, 0.1})
        for (const bool weighted : {false, true}) {
          const TensorType logits = tensor(dtype, {rows, classes}), labels = tensor(DType::kI64, {rows});
          const TensorType grad = tensor(dtype, {rows}), weights = tensor(dtype, {classes});
          const std::vector<int64_t> attrs = {-100, pack_f64(smoothing)};
          std::vector<TensorType> forward = {logits, labels}, backward = {logits, labels, grad};
          if (weighted) forward.push_back(weights), backward.push_back(weights);
          const double absolute = dtype == DType::kF64 ? 1e-14 : 1e-6;
          check({Op::kCrossEntropy, forward, attrs, 4, absolute});
          check({Op::kCrossEntropyGrad, backward, attrs, 4, absolute});
        }
}

// Rows with equal values, NaN and infinities, of widths around the number of lanes, and labels inside and outside.
TEST(KernelOps, LabelRank) {
  constexpr double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr std::array kValues = {1.0, -0.0, 0.0, 2.5, 1.0, kInf, kNan, -kInf, -3.0};
  for (const DType dtype : kFloats)
    for (const int64_t width : {1, 2, 9, 31, 32, 33, 100, 4099})
      for (const size_t kinds : {size_t{1}, size_t{5}, size_t{6}, kValues.size()}) {  // up to these of kValues
        constexpr int64_t kRows = 61;
        const std::array types = {tensor(dtype, {kRows, width}), tensor(DType::kI64, {kRows})};
        const TensorType result = tensor(DType::kI64, {kRows, 3});
        std::mt19937_64 rng(kinds);
        const std::array operands = {TestTensor(types[0], [&](int64_t) { return kValues[rng() % kinds]; }),
                                     TestTensor(types[1], [&](int64_t) {
                                       return static_cast<double>(rng() % (static_cast<uint64_t>(width) + 2)) - 1;
                                     })};
        const KernelRequest request{Op::kLabelRank, types, {}, result};
        const TestTensor want = run_kernel(prepare_reference_kernel(request), operands, std::span(&result, 1))[0];
        EveryIsa isas;
        isas.run([&](Isa isa) {
          const TestTensor got = run_kernel(prepare_kernel(request), operands, std::span(&result, 1), 2)[0];
          ASSERT_TRUE(got.same_bits(want))
              << name_of(dtype) << " " << width << " of " << kinds << " on " << name_of(isa);
        });
      }
}

TEST(KernelOps, LayerNorm) {
  for (const DType dtype : kFloats)
    for (const auto& [rows, width] : {std::pair<int64_t, int64_t>{1, 1}, {33, 10}, {5, 5000}, {300, 384}}) {
      const TensorType x = tensor(dtype, {rows, width}), row = tensor(dtype, {width});
      const std::vector<int64_t> eps = {pack_f64(1e-5)};
      const double absolute = dtype == DType::kF64 ? 1e-13 : 2e-6;
      check({Op::kLayerNorm, {x, row, row}, eps, 4, absolute});
      check({Op::kLayerNormGradX, {x, row, x}, eps, 4, absolute});
      check({Op::kLayerNormGradGamma, {x, x}, eps, 4, absolute});
    }
}

// Rows far from zero: a one-pass variance in f32 would be dominated by rounding errors.
TEST(KernelOps, LayerNormOfShiftedRows) {
  const TensorType x = tensor(DType::kF32, {2, 512}), row = tensor(DType::kF32, {512});
  const std::array operands = {TestTensor(x, [](int64_t i) { return 10000.0 + static_cast<double>(i % 7) / 8; }),
                               TestTensor(row, [](int64_t) { return 1.0; }),
                               TestTensor(row, [](int64_t) { return 0.0; })};
  const TensorType types[] = {x, row, row};
  const int64_t eps[] = {pack_f64(1e-5)};
  const KernelRequest request{Op::kLayerNorm, types, eps, x};
  const auto got = run_kernel(prepare_kernel(request), operands, std::span(&x, 1));
  const auto want = run_kernel(prepare_reference_kernel(request), operands, std::span(&x, 1));
  expect_close(got[0], want[0], 2, 0, "layer_norm");
}

// Figures of PyTorch that tell the usual values of eps apart.
TEST(KernelOps, EpsOfNorms) {
  const TensorType row = tensor(DType::kF32, {4});
  const auto first = [&](Op op, const std::vector<double>& values, double eps) {
    std::vector<TestTensor> operands{TestTensor(row, [&](int64_t i) { return values[static_cast<size_t>(i)]; }),
                                     TestTensor(row, [](int64_t) { return 1; })};
    if (op == Op::kLayerNorm) operands.emplace_back(row, [](int64_t) { return 0; });
    const std::vector<TensorType> types(operands.size(), row);
    const int64_t attrs[] = {pack_f64(eps)};
    return run_kernel(prepare_kernel({op, types, attrs, row}), operands, std::span(&row, 1))[0][0];
  };
  const std::vector<double> small{1e-3, -1e-3, 2e-3, -2e-3}, larger{1e-2, -2e-2, 2e-2, 3e-2};
  EXPECT_NEAR(first(Op::kLayerNorm, small, 1e-12), 0.6324554, 1e-6);
  EXPECT_NEAR(first(Op::kLayerNorm, small, 1e-6), 0.5345225, 1e-6);
  EXPECT_NEAR(first(Op::kLayerNorm, small, 1e-5), 0.2828427, 1e-6);
  EXPECT_NEAR(first(Op::kRmsNorm, larger, 1e-6), 0.4708816, 1e-6);
  EXPECT_NEAR(first(Op::kRmsNorm, larger, 1e-5), 0.4662524, 1e-6);
}

// The square of 300 is infinite in fp16.
TEST(KernelOps, RmsNormOfFp16IsComputedInF32) {
  const TensorType row = tensor(DType::kF16, {4});
  const std::array operands = {TestTensor(row, [](int64_t) { return 300; }),
                               TestTensor(row, [](int64_t) { return 2; })};
  const TensorType types[] = {row, row};
  const int64_t attrs[] = {pack_f64(1e-5)};
  EXPECT_EQ(run_kernel(prepare_kernel({Op::kRmsNorm, types, attrs, row}), operands, std::span(&row, 1))[0][3], 2);
}

TEST(KernelOps, DropoutMask) {
  for (const double p : {0.0, 0.1, 0.5, 0.9375})
    for (const auto& dims : {std::vector<int64_t>{5}, {4, 7}, {16, 3, 130}, {0, 4}}) {
      const TensorType ids = tensor(DType::kI64, {dims[0]});
      check({Op::kDropoutMask, {tensor(DType::kI64, {2}), ids}, {3, pack_f64(p)}, 0.5, 0, {DType::kF32, Shape(dims)}});
    }
  for (const auto& dims : {std::vector<int64_t>{2, 3, 5, 7}, {1, 1, 1, 1}, {3, 2, 9, 130}, {2, 2, 3, 0}}) {
    const TensorType ids = tensor(DType::kI64, {dims[0]});
    check(
        {Op::kDropoutMask, {tensor(DType::kI64, {2}), ids}, {3, pack_f64(0.3), 1}, 0.5, 0, {DType::kF32, Shape(dims)}});
  }
}

// Padding adds rows and columns to a mask, and changes none. No two weights of a sample share a word.
TEST(KernelOps, MasksOfAttentionWeightsDoNotDependOnTheirShape) {
  constexpr int64_t kHeads = 3, kMost = 12;
  const auto mask = [](int64_t tokens, int64_t keys) {
    const TensorType types[] = {tensor(DType::kI64, {2}), tensor(DType::kI64, {1})};
    const TensorType type = tensor(DType::kF32, {1, kHeads, tokens, keys});
    const int64_t attrs[] = {5, pack_f64(0.5), 1};
    const std::array operands = {random_tensor(types[0], 1), TestTensor(types[1], [](int64_t) { return 8.0; })};
    return run_kernel(prepare_kernel({Op::kDropoutMask, types, attrs, type}), operands, std::span(&type, 1))[0];
  };
  const TestTensor whole = mask(kMost, kMost);
  for (const auto& [tokens, keys] : {std::pair<int64_t, int64_t>{1, 1}, {7, 7}, {5, 9}, {12, 3}}) {
    const TestTensor part = mask(tokens, keys);
    for (int64_t h = 0; h < kHeads; ++h)
      for (int64_t t = 0; t < tokens; ++t)
        for (int64_t s = 0; s < keys; ++s)
          EXPECT_EQ(part[(h * tokens + t) * keys + s], whole[(h * kMost + t) * kMost + s]) << h << ' ' << t << ' ' << s;
  }
  std::set<std::vector<double>> rows;
  for (int64_t row = 0; row < kHeads * kMost; ++row) {
    std::vector<double> values;
    for (int64_t s = 0; s < kMost; ++s) values.push_back(whole[row * kMost + s]);
    rows.insert(values);
  }
  EXPECT_GT(rows.size(), 30U) << "rows and heads have masks of their own";
}

TEST(KernelOps, RandomTensors) {
  for (const auto& dims : {std::vector<int64_t>{}, {5}, {4, 7}, {16, 3, 130}, {0, 4}, {100'003}}) {
    const std::vector<TensorType> key = {tensor(DType::kI64, {2})};
    check({Op::kRandomUniform, key, {3}, 0, 0, {DType::kF32, Shape(dims)}});
    check({Op::kRandomNormal, key, {3}, 5, 0, {DType::kF32, Shape(dims)}});
  }
}

TEST(KernelOps, DropoutMaskKeepsTheRightFraction) {
  const TensorType types[] = {tensor(DType::kI64, {2}), tensor(DType::kI64, {100})};
  const TensorType mask = tensor(DType::kF32, {100, 1000});
  const int64_t attrs[] = {0, pack_f64(0.1)};
  const std::array operands = {random_tensor(types[0], 1),
                               TestTensor(types[1], [](int64_t i) { return static_cast<double>(i); })};
  const auto got = run_kernel(prepare_kernel({Op::kDropoutMask, types, attrs, mask}), operands, std::span(&mask, 1));
  int64_t kept = 0;
  for (int64_t i = 0; i < 100000; ++i) kept += got[0][i] != 0;
  EXPECT_NEAR(static_cast<double>(kept), 90000, 4 * std::sqrt(100000 * 0.1 * 0.9));
}

// ---- errors --------------------------------------------------------------------------------------------------------

std::string error_of(const KernelCase& c, const std::vector<TestTensor>& operands) {
  const TensorType result = type_of(c);
  try {
    run_kernel(prepare_kernel({c.op, c.operands, c.attrs, result}), operands, std::span(&result, 1), 2);
  } catch (const Error& error) {
    return error.message();
  }
  return "no error";
}

TEST(KernelOps, IndicesOutOfRangeAreRunErrors) {
  const TensorType x = tensor(DType::kF32, {6, 10}), labels = tensor(DType::kI64, {6});
  std::vector<TestTensor> operands = {random_tensor(x, 1),
                                      TestTensor(labels, [](int64_t i) { return i == 5 ? 12 : 1; })};
  EXPECT_EQ(error_of({Op::kCrossEntropy, {x, labels}, {-100, 0}}, operands),
            "cross_entropy: label 12 at row 5 is out of range, the model has 10 classes");
  EXPECT_EQ(error_of({Op::kEmbedding, {x, labels}, {}}, operands),
            "embedding: index 12 at position 5 is out of range, size 6");
  const TestTensor negative(labels, [](int64_t i) { return i == 3 ? -1 : 0; });
  EXPECT_EQ(error_of({Op::kOneHot, {labels}, {4}}, {negative}),
            "one_hot: index -1 at position 3 is out of range, size 4");
  EXPECT_EQ(error_of({Op::kEmbeddingGrad, {labels, x}, {4}}, {negative, operands[0]}),
            "embedding_grad: index -1 at position 3 is out of range, size 4");
  const TensorType flat = tensor(DType::kF32, {6});
  EXPECT_EQ(error_of({Op::kGather, {flat, labels}, {0}}, {random_tensor(flat, 1), operands[1]}),
            "gather: index 12 at position 5 is out of range, size 6");
  EXPECT_EQ(error_of({Op::kScatterAdd, {flat, labels, flat}, {0}},
                     {random_tensor(flat, 1), operands[1], random_tensor(flat, 2)}),
            "scatter_add: index 12 at position 5 is out of range, size 6");
}

}  // namespace
}  // namespace runner::backends
