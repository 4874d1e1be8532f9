// Attention: the fused op compared with its composition, threads, memory, rows that see no key, and how devices see it.
#include <optional>

#include <gtest/gtest.h>

#include "backends/gpu/launch.h"
#include "backends/ir/autograd.h"
#include "backends/ir/ops.h"
#include "backends/ir/passes/passes.h"
#include "backends/tpu/graph_text.h"
#include "backends/tpu/numerics.h"
#include "backends/tpu/tpu_device_model.h"
#include "tests/backends/kernels_harness.h"
#include "tests/backends/op_cases.h"
#include "tests/backends/support/run_program.h"
#include "tests/backends/support/tolerance.h"

namespace runner::backends::testing {
namespace {

struct AttentionCase {
  int64_t batch = 2, heads = 4, groups = 2, tokens = 150, keys = 150, width = 8;
  bool causal = false, has_mask = false;
  double dropout = 0;
  DType dtype = DType::kF32;
  std::optional<double> scale = {};
};

// Attention and the gradients of q, k and v, of Σ y.
struct AttentionProgram {
  Program program;
  Inputs tensors;

  explicit AttentionProgram(const AttentionCase& c) {
    const TensorType q{c.dtype, Shape{c.batch, c.heads, c.tokens, c.width}};
    const TensorType k{c.dtype, Shape{c.batch, c.groups, c.keys, c.width}};
    const std::array<Value, 4> x{input(q), input(k), input(k), input(q)};
    ops::AttentionOptions options{.causal = c.causal, .scale = c.scale, .dropout = c.dropout, .layer = 2};
    if (c.has_mask) options.mask = input({c.dtype, Shape{c.batch, 1, 1, c.keys}});
    if (c.dropout > 0) {
      options.dropout_key = input({DType::kI64, Shape{2}});
      options.sample_ids = input({DType::kI64, Shape{c.batch}});
    }
    const Value y = ops::attention(x[0], x[1], x[2], options);
    program.output("y", y.id);
    for (const Value grad : differentiate(y, x[3], std::span(x).first(3))) program.output("gradient", grad.id);
  }

 private:
  Value input(const TensorType& type) {
    const double seed = static_cast<double>(tensors.size()) + 1;
    tensors.emplace_back(type, [&](int64_t i) {
      return is_float(type.dtype) ? std::sin(seed * 7 + static_cast<double>(i) * 0.37) : static_cast<double>(i) + seed;
    });
    return {&program, program.input(InputKind::kBatch, "x", type)};
  }
};

bool has_attention(const Program& program) {
  for (ValueId id = 0; id < program.size(); ++id)
    if (kind_of(program.node(id).op) == OpKind::kAttention) return true;
  return false;
}

const AttentionCase kCases[] = {{},
                                {.causal = true},
                                {.groups = 4, .tokens = 70, .keys = 201, .causal = true},
                                {.has_mask = true},
                                {.tokens = 61, .keys = 33, .causal = true, .has_mask = true, .dropout = 0.3},
                                {.groups = 1, .keys = 77, .dropout = 0.1}};

TEST(Attention, IsItsComposition) {
  for (const AttentionCase& c : kCases) {
    const AttentionProgram attention(c);
    const Program composed = compose_attention(attention.program);
    EXPECT_EQ(verify(composed), "");
    EXPECT_FALSE(has_attention(composed));
    const Results fused = run_plan_once(attention.program, attention.tensors, {}, pool_of(1));
    const Results want = run_plan_once(composed, attention.tensors, {}, pool_of(1));
    for (size_t i = 0; i < want.outputs.size(); ++i)
      EXPECT_EQ(far_apart(fused.outputs[i], want.outputs[i], 16), "") << i;
  }
}

// Whatever products of bf16 this CPU has: compared with f32 on the same values. The last cases have a scale below zero,
// an odd width, and few rows.
TEST(Attention, InBf16IsThatOfF32Rounded) {
  std::vector<AttentionCase> cases(std::begin(kCases), std::end(kCases));
  for (const int64_t width : {2, 64, 130}) cases.push_back({.tokens = 133, .keys = 259, .width = width});
  cases.push_back({.causal = true, .has_mask = true, .scale = -0.7});
  cases.push_back({.width = 7});
  cases.push_back({.tokens = 3, .keys = 40});
  for (AttentionCase c : cases) {
    AttentionProgram wide(c);
    c.dtype = DType::kBf16;
    const AttentionProgram narrow(c);
    for (size_t i = 0; i < wide.tensors.size(); ++i)
      wide.tensors[i] = HostTensor(wide.tensors[i].type, narrow.tensors[i].values());
    const Results got = run_plan_once(narrow.program, narrow.tensors, {}, pool_of(1));
    const Results want = run_plan_once(wide.program, wide.tensors, {}, pool_of(1));
    for (size_t i = 0; i < want.outputs.size(); ++i) {
      double error = 0, size = 0, largest = 0, largest_error = 0;
      for (int64_t at = 0; at < want.outputs[i].size(); ++at) {
        const double difference = std::abs(got.outputs[i][at] - want.outputs[i][at]);
        error += difference * difference;
        size += want.outputs[i][at] * want.outputs[i][at];
        largest = std::max(largest, std::abs(want.outputs[i][at]));
        largest_error = std::max(largest_error, difference);
      }
      EXPECT_LT(std::sqrt(error), 0.006 * std::sqrt(size)) << i << ", width " << c.width << ", keys " << c.keys;
      EXPECT_LT(largest_error, 0.02 * largest) << i << ", width " << c.width << ", keys " << c.keys;
    }
  }
}

// Causal attention does not read keys of the future: they may be anything.
TEST(Attention, InBf16HiddenKeysDoNotMatter) {
  const AttentionCase c{.tokens = 50, .keys = 50, .causal = true, .dtype = DType::kBf16};
  AttentionProgram attention(c);
  const Results before = run_plan_once(attention.program, attention.tensors, {}, pool_of(1));
  for (const size_t operand : {1, 2})
    for (int64_t i = 0; i < attention.tensors[operand].size(); ++i)
      if (i / c.width % c.keys == 49) attention.tensors[operand].set(i, 300.0);
  const Results after = run_plan_once(attention.program, attention.tensors, {}, pool_of(1));
  for (int64_t i = 0; i < before.outputs[0].size(); ++i) {
    const bool sees_the_last_key = i / c.width % c.tokens == 49;
    EXPECT_TRUE(sees_the_last_key || before.outputs[0][i] == after.outputs[0][i]) << i;
  }
}

TEST(Attention, ThreadsDoNotChangeBits) {
  std::vector<AttentionCase> cases(std::begin(kCases), std::end(kCases));
  for (const AttentionCase& c : kCases) {
    cases.push_back(c);
    cases.back().dtype = DType::kBf16;
  }
  for (const AttentionCase& c : cases) {
    const AttentionProgram attention(c);
    const Results one = run_plan_once(attention.program, attention.tensors, {}, pool_of(1));
    EXPECT_EQ(run_plan_once(attention.program, attention.tensors, {}, pool_of(3)), one);
  }
}

// Dropout drops the weights that ops::weights_dropout_mask() drops: with q = 0, each key has weight 1/S, and row s of v
// is the unit vector s.
TEST(Attention, DropsTheWeightsOfTheMask) {
  Program program;
  constexpr int64_t kSize = 7;
  const auto input = [&](const TensorType& type) {
    return Value{&program, program.input(InputKind::kBatch, "x", type)};
  };
  const TensorType square{DType::kF32, Shape{1, 2, kSize, kSize}};
  const Value q = input(square), v = input(square), key = input({DType::kI64, Shape{2}}),
              ids = input({DType::kI64, Shape{1}});
  const Value y = ops::attention(q, q, v, {.dropout = 0.5, .dropout_key = key, .sample_ids = ids, .layer = 4});
  program.output("y", ops::mul(y, static_cast<double>(kSize)).id);
  program.output("mask", ops::weights_dropout_mask(key, ids, square.shape, 4, 0.5).id);
  const auto unit = [](int64_t i) { return i % (kSize * kSize) % (kSize + 1) == 0 ? 1.0 : 0.0; };
  const Results got =
      run_plan_once(program,
                    {HostTensor(square, [](int64_t) { return 0.0; }), HostTensor(square, unit),
                     HostTensor({DType::kI64, Shape{2}}, [](int64_t i) { return 11.0 + static_cast<double>(i); }),
                     HostTensor({DType::kI64, Shape{1}}, [](int64_t) { return 5.0; })},
                    {}, pool_of(1));
  EXPECT_EQ(far_apart(got.outputs[0], got.outputs[1], 4), "");
}

// PyTorch's scaled_dot_product_attention with q = k = v: keys 1 and 2 visible to rows 1 and 2, none to row 3.
TEST(Attention, ARowWithoutAVisibleKeyGivesZeroAndFiniteGradients) {
  Program program;
  const TensorType type{DType::kF32, Shape{1, 1, 3, 2}}, mask_type{DType::kF32, Shape{1, 1, 3, 3}};
  const Value x{&program, program.input(InputKind::kBatch, "x", type)};
  const Value mask{&program, program.input(InputKind::kBatch, "mask", mask_type)};
  const Value y = ops::attention(x, x, x, {.mask = mask});
  program.output("y", y.id);
  const std::array<Value, 2> by{x, mask};
  for (const Value grad : differentiate(y, ops::full_like(y, 1), by)) program.output("gradient", grad.id);
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const HostTensor rows(type, std::vector<double>{1, 0, 0, 1, 1, 1});
  const HostTensor hidden(mask_type, std::vector<double>{0, 0, -kInf, 0, 0, -kInf, -kInf, -kInf, -kInf});
  for (const Program& each : {program, compose_attention(program)}) {
    const Results got = run_plan_once(each, {rows, hidden}, {}, pool_of(1));
    const std::vector<double> want = {0.6697615, 0.3302385, 0.3302385, 0.6697615, 0, 0};
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got.outputs[0][static_cast<int64_t>(i)], want[i], 1e-6);
    for (const HostTensor& output : got.outputs)
      for (const double value : output.values()) EXPECT_TRUE(std::isfinite(value));
  }
}

// The memory of a plan does not contain the scores of a head, forward and backward.
TEST(Attention, TakesNoMemoryForScores) {
  const AttentionCase c{.batch = 1, .heads = 8, .groups = 8, .tokens = 2048, .keys = 2048, .width = 8, .causal = true};
  const AttentionProgram attention(c);
  const auto scores = static_cast<size_t>(c.batch * c.heads * c.tokens * c.keys) * sizeof(float);
  EXPECT_LT(build_plan(attention.program).arena_bytes, scores / 2);
  EXPECT_GT(build_plan(compose_attention(attention.program)).arena_bytes, scores);
}

// PyTorch/XLA traces products and a softmax; the gradient reads the softmax of the forward pass.
TEST(Attention, IsComposedForMatrixUnitsThatRound) {
  const AttentionProgram attention({.causal = true});
  for (const auto precision : {tpu::MatmulPrecision::kDefault, tpu::MatmulPrecision::kHigh})
    EXPECT_FALSE(has_attention(tpu::with_matmul_precision(attention.program, precision)));
  EXPECT_TRUE(has_attention(tpu::with_matmul_precision(attention.program, tpu::MatmulPrecision::kHighest)));
  const Program composed = compose_attention(attention.program);
  int softmaxes = 0, products = 0;
  for (ValueId id = 0; id < composed.size(); ++id) {
    softmaxes += composed.node(id).op == Op::kSoftmax;
    products += composed.node(id).op == Op::kMatmul;
  }
  EXPECT_EQ(softmaxes, 1);
  EXPECT_EQ(products, 2 + 4);
}

// A TPU is predicted to hold the scores and to compute six products.
TEST(Attention, IsPredictedAsItsCompositionOnATpu) {
  const AttentionCase c{.heads = 2, .tokens = 512, .keys = 512, .width = 64};
  const AttentionProgram attention(c);
  for (const bool eager : {false, true}) {
    const auto device = tpu::make_tpu_device({.eager = eager});
    const tpu::TpuDeviceModel& model = tpu::model_of_tpu(*device);
    const tpu::GraphPrediction fused = model.forecast(attention.program).prediction;
    const tpu::GraphPrediction want = model.forecast(compose_attention(attention.program)).prediction;
    EXPECT_EQ(fused.hbm_bytes, want.hbm_bytes);
    EXPECT_EQ(fused.flops, want.flops);
    const int64_t scores = c.batch * c.heads * c.tokens * c.keys;
    EXPECT_GT(fused.hbm_bytes, scores * 4);
    EXPECT_GT(fused.flops, 6 * 2 * scores * c.width);
    const std::string text = model.ir_text(attention.program);
    EXPECT_NE(text.find("aten::softmax"), std::string::npos) << text;
    EXPECT_EQ(text.find("scaled_dot_product_attention"), std::string::npos) << text;
  }
}

TEST(Attention, IsOneKernelOnAGpu) {
  const AttentionProgram attention({});
  int kernels = 0;
  for (const gpu::Launch& launch : gpu::launches_of(launched_plan(attention.program), {}))
    if (launch.cls == gpu::LaunchClass::kMatmul) ++kernels;
  EXPECT_EQ(kernels, 2);  // attention and attention_grad
}

}  // namespace
}  // namespace runner::backends::testing
