// Running a prepared kernel allocates nothing. (Allocations inside oneDNN calls do not count.)
#include <gtest/gtest.h>

#include "backends/ir/op_def.h"
#include "backends/ir/program.h"
#include "backends/kernels/eltwise_kernels.h"
#include "tests/backends/kernels_harness.h"
#include "tests/support/allocations.h"

namespace runner::backends {
namespace {

// Number of allocations while the kernel runs for the second time, on two threads.
int64_t allocations_of(const Kernel& kernel, std::span<const TensorType> operands, const TensorType& result) {
  std::vector<TestTensor> tensors;
  for (const TensorType& type : operands)
    tensors.push_back(TestTensor(type, [&](int64_t i) {
      return is_float(type.dtype) ? 0.1 * static_cast<double>(i % 5) : static_cast<double>(i % 2);
    }));
  tensors.emplace_back(result);
  std::vector<std::byte*> in;
  for (const TestTensor& tensor : tensors) in.push_back(tensor.buffer->data());
  const std::span<std::byte* const> all = in;
  TestBuffer scratch(kernel.scratch_bytes);
  const KernelArguments arguments{all.first(operands.size()), all.subspan(operands.size()), scratch.data(), pool_of(2)};
  kernel.run(kernel.params.get(), arguments);
  const int64_t before = support::allocations();
  kernel.run(kernel.params.get(), arguments);
  return support::allocations() - before;
}

TEST(KernelAllocations, AreCounted) {
  const int64_t before = support::allocations();
  std::vector<int> some(10);
  EXPECT_EQ(some.size(), 10u);
  EXPECT_EQ(support::allocations(), before + 1);
}

TEST(KernelAllocations, NoOpAllocatesWhenItRuns) {
  const auto f32 = [](std::initializer_list<int64_t> dims) { return TensorType{DType::kF32, Shape(dims)}; };
  const auto bf16 = [](std::initializer_list<int64_t> dims) { return TensorType{DType::kBf16, Shape(dims)}; };
  const auto i64 = [](std::initializer_list<int64_t> dims) { return TensorType{DType::kI64, Shape(dims)}; };
  const int64_t eps = pack_f64(1e-5), half = pack_f64(0.5);
  struct Row {
    Op op;
    std::vector<TensorType> operands;
    std::vector<int64_t> attrs;
    TensorType requested{};
  };
  const Row rows[] = {
      {Op::kSum, {f32({500, 600})}, {0}},
      {Op::kSum, {bf16({500, 600})}, {1}},
      {Op::kReduceMax, {f32({4, 5, 6})}, {0, 2}},
      {Op::kArgMax, {f32({400, 10})}, {1}},
      {Op::kReshape, {f32({6, 4})}, {}, f32({24})},
      {Op::kPermute, {f32({300, 400})}, {1, 0}},
      {Op::kExpand, {f32({300, 1})}, {}, f32({300, 400})},
      {Op::kSlice, {f32({30, 40})}, {1, 20, 2, 0, 40, 3}},
      {Op::kPad, {f32({30, 40})}, {1, 1, 2, 2}},
      {Op::kConcat, {f32({30, 40}), f32({30, 7})}, {1}},
      {Op::kGather, {f32({5, 4}), i64({5, 4})}, {1}},
      {Op::kScatterAdd, {bf16({5, 4}), i64({5, 4}), bf16({5, 4})}, {1}},
      {Op::kIndexCopy, {bf16({5, 4}), i64({2}), bf16({2, 4})}, {0}},
      {Op::kOneHot, {i64({50})}, {4}},
      {Op::kEmbedding, {f32({50, 64}), i64({5000})}, {}},
      {Op::kEmbeddingGrad, {i64({5000}), bf16({5000, 64})}, {50}},
      {Op::kMatmul, {TensorType{DType::kF64, Shape{20, 30}}, TensorType{DType::kF64, Shape{30, 40}}}, {0, 0}},
      {Op::kSoftmax, {f32({400, 300})}, {}},
      {Op::kLogSoftmax, {bf16({400, 300})}, {}},
      {Op::kCrossEntropy, {f32({400, 300}), i64({400})}, {-100, half}},
      {Op::kCrossEntropyGrad, {bf16({400, 300}), i64({400}), bf16({400}), bf16({300})}, {-100, half}},
      {Op::kLabelRank, {bf16({400, 300}), i64({400})}, {}},
      {Op::kLayerNorm, {f32({400, 300}), f32({300}), f32({300})}, {eps}},
      {Op::kLayerNormGradX, {f32({400, 300}), f32({300}), f32({400, 300})}, {eps}},
      {Op::kLayerNormGradGamma, {bf16({400, 300}), bf16({400, 300})}, {eps}},
      {Op::kDropoutMask, {i64({2}), i64({100})}, {0, half}, f32({100, 2000})},
      {Op::kRandomUniform, {i64({2})}, {0}, f32({100, 2001})},
      {Op::kRandomNormal, {i64({2})}, {0}, f32({100, 2001})},
  };
  for (const Row& row : rows) {
    const TensorType result = result_type(row.op, row.operands, row.attrs, row.requested);
    const Kernel kernel = prepare_kernel({row.op, row.operands, row.attrs, result});
    EXPECT_EQ(allocations_of(kernel, row.operands, result), 0) << kernel.name;
  }
}

TEST(KernelAllocations, NoGroupAllocatesWhenItRuns) {
  const Shape shape{300, 500};
  const EltwiseGroup group{.shape = shape,
                           .inputs = {{DType::kBf16, shape.strides()}, {DType::kF32, {0, 1}}},
                           .constants = {2.0},
                           .code = {{Op::kMul, DType::kF32, {0, 1, -1}},
                                    {Op::kTanh, DType::kF32, {3, -1, -1}},
                                    {Op::kAdd, DType::kF32, {4, 2, -1}}},
                           .outputs = {5}};
  const TensorType operands[] = {{DType::kBf16, shape}, {DType::kF32, Shape{500}}};
  const Kernel kernel = prepare_eltwise(group);
  EXPECT_EQ(kernel.name, "eltwise.vm3");
  EXPECT_EQ(allocations_of(kernel, operands, {DType::kF32, shape}), 0);
  EltwiseGroup named = group;
  named.inputs = {{DType::kF32, shape.strides()}, {DType::kF32, {0, 1}}};
  named.constants.clear();
  named.code = {{Op::kAdd, DType::kF32, {0, 1, -1}}};
  named.outputs = {2};
  const Kernel bias = prepare_eltwise(named);
  EXPECT_EQ(bias.name, "eltwise.add");
  const TensorType flat[] = {{DType::kF32, shape}, {DType::kF32, Shape{500}}};
  EXPECT_EQ(allocations_of(bias, flat, {DType::kF32, shape}), 0);
}

}  // namespace
}  // namespace runner::backends
