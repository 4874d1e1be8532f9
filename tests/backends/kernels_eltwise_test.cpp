#include <algorithm>
#include <cmath>
#include <ctime>
#include <functional>
#include <numeric>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/ir/op.h"
#include "backends/kernels/eltwise.h"
#include "backends/kernels/eltwise_kernels.h"
#include "backends/kernels/isa/named_group.h"
#include "tests/backends/kernels_harness.h"

namespace runner::backends {
namespace {

constexpr Op kUnary[] = {Op::kNeg,  Op::kAbs,      Op::kSign, Op::kExp,       Op::kLog,           Op::kLog1p,
                         Op::kSqrt, Op::kRsqrt,    Op::kTanh, Op::kSigmoid,   Op::kErf,           Op::kRelu,
                         Op::kGelu, Op::kGeluTanh, Op::kSilu, Op::kGeluSlope, Op::kGeluTanhSlope, Op::kSiluSlope};
constexpr Op kBinary[] = {Op::kAdd, Op::kSub, Op::kMul, Op::kDiv, Op::kPow, Op::kMin, Op::kMax,
                          Op::kEq,  Op::kNe,  Op::kLt,  Op::kLe,  Op::kGt,  Op::kGe};

TensorType result_type(const EltwiseGroup& group, size_t k) {
  const size_t first = group.inputs.size() + group.constants.size();
  return {group.code[static_cast<size_t>(group.outputs[k]) - first].dtype, group.shape};
}

std::vector<TensorType> result_types(const EltwiseGroup& group) {
  std::vector<TensorType> types;
  for (size_t k = 0; k < group.outputs.size(); ++k) types.push_back(result_type(group, k));
  return types;
}

EltwiseInput contiguous(DType dtype, const Shape& shape) {
  return {dtype, shape.strides()};
}

// A group of one instruction over contiguous operands.
EltwiseGroup single(Op op, DType dtype, const Shape& shape, std::vector<DType> inputs) {
  EltwiseGroup group{.shape = shape, .inputs = {}, .constants = {}, .code = {}, .outputs = {}};
  EltwiseInstruction code{op, dtype};
  for (size_t k = 0; k < inputs.size(); ++k) {
    group.inputs.push_back(contiguous(inputs[k], shape));
    code.sources[k] = static_cast<int16_t>(k);
  }
  group.outputs = {static_cast<int16_t>(inputs.size())};
  group.code = {code};
  return group;
}

// Special values: zeros, ones, denormals, limits, infinities, NaN.
double special(int64_t i) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  constexpr double kValues[] = {0.0,
                                -0.0,
                                1.0,
                                -1.0,
                                0.5,
                                -2.0,
                                3.0,
                                -3.5,
                                1e-40,
                                -1e-40,
                                1e-30,
                                88.0,
                                -88.0,
                                1e30,
                                -1e30,
                                3e38,
                                kInf,
                                -kInf,
                                std::numeric_limits<double>::quiet_NaN(),
                                7.0,
                                1e-8,
                                -0.7,
                                120.0};
  return kValues[static_cast<size_t>(i) % std::size(kValues)];
}

class EltwiseOps : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(DTypes, EltwiseOps, ::testing::Values(DType::kF32, DType::kF64, DType::kBf16, DType::kF16),
                         [](const auto& param) { return std::string(name_of(param.param)); });

// Elements may differ by `ulps`, or by `absolute`.
void compare_group(const EltwiseGroup& group, std::span<const TestTensor> operands, double ulps,
                   const std::string& what, double absolute = 0) {
  const auto types = result_types(group);
  const auto want = run_kernel(prepare_reference_eltwise(group), operands, types);
  std::vector<TestTensor> first;
  EveryIsa isas;
  isas.run([&](Isa isa) {
    const auto got = run_kernel(prepare_eltwise(group), operands, types);
    for (size_t k = 0; k < got.size(); ++k) {
      expect_close(got[k], want[k], ulps, absolute, fmt::format("{} on {}", what, name_of(isa)));
      if (!first.empty()) {
        EXPECT_TRUE(got[k].same_bits(first[k])) << what << " on " << name_of(isa);
      }
    }
    if (first.empty()) first = got;
  });
}

TEST_P(EltwiseOps, UnaryMatchesTheReference) {
  const Shape shape{1031};
  for (const Op op : kUnary) {
    for (const bool specials : {false, true}) {
      const TensorType type{GetParam(), shape};
      const TestTensor x = specials ? TestTensor(type, special) : random_tensor(type, 7, 2.0);
      // The tails of the gelus and silu cancel (see vector_math.h); the random arguments here stay above −8.
      const bool tail = op == Op::kGelu || op == Op::kGeluTanh || op == Op::kSilu;
      const bool crosses_zero = op == Op::kGeluSlope || op == Op::kGeluTanhSlope || op == Op::kSiluSlope;
      compare_group(single(op, GetParam(), shape, {GetParam()}), std::span(&x, 1), tail ? 64 : 4,
                    std::string(name_of(op)),
                    crosses_zero ? 4 * spacing(GetParam() == DType::kF64 ? DType::kF64 : DType::kF32, 0.75) : 0);
    }
  }
}

TEST_P(EltwiseOps, BinaryMatchesTheReference) {
  const Shape shape{529};
  const TensorType type{GetParam(), shape};
  for (const Op op : kBinary) {
    const DType result = op >= Op::kEq ? DType::kBool : GetParam();
    const std::array random = {random_tensor(type, 1), random_tensor(type, 2)};
    const std::array specials = {TestTensor(type, special),
                                 TestTensor(type, [](int64_t i) { return special(i / 23); })};
    compare_group(single(op, result, shape, {GetParam(), GetParam()}), random, 1, std::string(name_of(op)));
    compare_group(single(op, result, shape, {GetParam(), GetParam()}), specials, 1,
                  fmt::format("{} of specials", name_of(op)));
  }
}

TEST_P(EltwiseOps, WhereIsFiniteAndCasts) {
  const Shape shape{100};
  const TensorType type{GetParam(), shape};
  const std::array where = {random_tensor({DType::kBool, shape}, 3), TestTensor(type, special), random_tensor(type, 4)};
  compare_group(single(Op::kWhere, GetParam(), shape, {DType::kBool, GetParam(), GetParam()}), where, 0, "where");
  compare_group(single(Op::kIsFinite, DType::kBool, shape, {GetParam()}), std::span(&where[1], 1), 0, "is_finite");
  for (int to = 0; to < kDTypeCount; ++to)
    compare_group(single(Op::kCast, DType(to), shape, {GetParam()}), std::span(&where[1], 1), 0,
                  fmt::format("cast from {} to {}", name_of(GetParam()), name_of(DType(to))));
}

TEST(Eltwise, IntegersAndBools) {
  const Shape shape{77};
  for (const DType dtype : {DType::kI32, DType::kI64}) {
    const std::array in = {random_tensor({dtype, shape}, 1), random_tensor({dtype, shape}, 2)};
    for (const Op op : {Op::kNeg, Op::kAbs, Op::kSign, Op::kRelu})
      if (op != Op::kRelu)
        compare_group(single(op, dtype, shape, {dtype}), std::span(in.data(), 1), 0, std::string(name_of(op)));
    for (const Op op : {Op::kAdd, Op::kSub, Op::kMul, Op::kMin, Op::kMax})
      compare_group(single(op, dtype, shape, {dtype, dtype}), in, 0, std::string(name_of(op)));
    for (const Op op : {Op::kEq, Op::kNe, Op::kLt, Op::kLe, Op::kGt, Op::kGe})
      compare_group(single(op, DType::kBool, shape, {dtype, dtype}), in, 0, std::string(name_of(op)));
    for (int to = 0; to < kDTypeCount; ++to)
      compare_group(single(Op::kCast, DType(to), shape, {dtype}), std::span(in.data(), 1), 0,
                    fmt::format("cast to {}", name_of(DType(to))));
  }
  const std::array bools = {random_tensor({DType::kBool, shape}, 1), random_tensor({DType::kBool, shape}, 2)};
  compare_group(single(Op::kNot, DType::kBool, shape, {DType::kBool}), std::span(bools.data(), 1), 0, "not");
  compare_group(single(Op::kAnd, DType::kBool, shape, {DType::kBool, DType::kBool}), bools, 0, "and");
  compare_group(single(Op::kOr, DType::kBool, shape, {DType::kBool, DType::kBool}), bools, 0, "or");
  compare_group(single(Op::kCast, DType::kF32, shape, {DType::kBool}), std::span(bools.data(), 1), 0, "cast");
}

TEST(Eltwise, IntegersWrapAround) {
  const Shape shape{4};
  constexpr double kBig = 2147483647.0;
  const std::array in = {TestTensor({DType::kI32, shape}, [](int64_t i) { return i == 0 ? kBig : -kBig - 1; }),
                         TestTensor({DType::kI32, shape}, [](int64_t i) { return i == 0 ? 1 : -1; })};
  const TensorType type{DType::kI32, shape};
  const auto got = run_kernel(prepare_eltwise(single(Op::kAdd, DType::kI32, shape, {DType::kI32, DType::kI32})), in,
                              std::span(&type, 1));
  EXPECT_EQ(got[0][0], -kBig - 1);
  EXPECT_EQ(got[0][1], kBig);
}

// ---- random groups -------------------------------------------------------------------------------------------------

struct GroupCase {
  EltwiseGroup group;
  std::vector<TestTensor> operands;
};

// A straight-line group over inputs with arbitrary strides; `compute` determines its dtypes.
GroupCase random_case(uint64_t seed, Compute compute) {
  std::mt19937_64 rng(seed);
  const auto pick = [&](auto values) { return values[rng() % values.size()]; };
  GroupCase c{
      .group =
          {.shape = Shape(pick(std::vector<std::vector<int64_t>>{
               {1}, {5}, {1000}, {4099}, {32, 10}, {7, 300}, {3, 2000}, {2, 3, 4, 5}, {1, 6, 1, 11}, {40, 1}, {0, 3}})),
           .inputs = {},
           .constants = {},
           .code = {},
           .outputs = {}},
      .operands = {}};
  EltwiseGroup& group = c.group;
  const std::vector<DType> dtypes = compute == Compute::kF32
                                        ? std::vector{DType::kF32, DType::kBf16, DType::kF16, DType::kBool}
                                    : compute == Compute::kF64 ? std::vector{DType::kF64}
                                                               : std::vector{DType::kI64, DType::kI32};
  std::vector<DType> registers;
  const size_t inputs = 1 + rng() % 4;
  for (size_t k = 0; k < inputs; ++k) {
    const DType dtype = k == 0 ? dtypes[0] : pick(dtypes);
    EltwiseInput input = contiguous(dtype, group.shape);
    std::vector<int64_t> stored(group.shape.dims().begin(), group.shape.dims().end());
    // Broadcasts some axes and lays out the rest; or reads every second element of each row.
    for (int64_t& dim : stored)
      if (rng() % 3 == 0) dim = 1;
    const auto strides = Shape(stored).strides();
    const bool doubled = rng() % 5 == 0;
    for (size_t axis = 0; axis < stored.size(); ++axis)
      input.strides[axis] = stored[axis] == 1 ? 0 : strides[axis] * (doubled ? 2 : 1);
    c.operands.push_back(random_tensor({dtype, Shape{2 * Shape(stored).elements() + 2}}, rng()));
    group.inputs.push_back(input);
    registers.push_back(dtype);
  }
  const size_t constants = rng() % 3;
  for (size_t k = 0; k < constants; ++k) {
    group.constants.push_back(static_cast<double>(rng() % 9) - 4);
    registers.push_back(dtypes[0]);
  }
  const std::vector<Op> ops =
      compute == Compute::kI64
          ? std::vector{Op::kAdd, Op::kSub, Op::kMul, Op::kMin, Op::kNeg, Op::kAbs}
          : std::vector{Op::kAdd,  Op::kSub,  Op::kMul,     Op::kDiv,  Op::kMax,   Op::kTanh, Op::kExp,
                        Op::kRelu, Op::kSqrt, Op::kSigmoid, Op::kGelu, Op::kWhere, Op::kCast};
  const auto any_number = [&] {
    for (;;) {
      const size_t reg = rng() % registers.size();
      if (registers[reg] != DType::kBool) return static_cast<int16_t>(reg);
    }
  };
  const auto any_variable = [&] {
    for (;;) {
      const auto reg = static_cast<size_t>(any_number());
      if (reg < inputs || reg >= inputs + constants) return static_cast<int16_t>(reg);
    }
  };
  const size_t length = 1 + rng() % 12;
  for (size_t k = 0; k < length; ++k) {
    EltwiseInstruction code{pick(ops), dtypes[rng() % dtypes.size()], {any_variable(), -1, -1}};
    if (code.op >= Op::kAdd && code.op <= Op::kMax) code.sources[1] = any_number();
    if (code.op == Op::kWhere) {
      code.sources = {-1, any_variable(), any_number()};
      for (size_t reg = 0; reg < registers.size(); ++reg)
        if (registers[reg] == DType::kBool) code.sources[0] = static_cast<int16_t>(reg);
      if (code.sources[0] < 0) code = {Op::kGt, DType::kBool, {any_variable(), any_number(), -1}};
    }
    if (code.dtype == DType::kBool && code.op != Op::kCast && code.op != Op::kGt) code.dtype = dtypes[0];
    group.code.push_back(code);
    registers.push_back(code.dtype);
  }
  const auto first = static_cast<int16_t>(inputs + constants);
  group.outputs.push_back(static_cast<int16_t>(first + length - 1));
  if (length > 2) group.outputs.push_back(static_cast<int16_t>(first + rng() % length));
  return c;
}

// The same group with one kernel per instruction, storing every intermediate result.
std::vector<TestTensor> run_unfused(const GroupCase& c) {
  const EltwiseGroup& group = c.group;
  std::vector<TestTensor> values;
  const size_t first = group.inputs.size() + group.constants.size();
  for (const EltwiseInstruction& code : group.code) {
    EltwiseGroup one{.shape = group.shape, .inputs = {}, .constants = {}, .code = {code}, .outputs = {}};
    std::vector<TestTensor> operands;
    std::vector<int16_t> constant_sources;
    for (size_t pass = 0; pass < 2; ++pass)  // inputs before constants
      for (size_t s = 0; s < 3; ++s) {
        if (code.sources[s] < 0) continue;
        const auto reg = static_cast<size_t>(code.sources[s]);
        const bool constant = reg >= group.inputs.size() && reg < first;
        if (constant != (pass == 1)) continue;
        one.code[0].sources[s] = static_cast<int16_t>(operands.size() + one.constants.size());
        if (constant) {
          one.constants.push_back(group.constants[reg - group.inputs.size()]);
        } else if (reg < group.inputs.size()) {
          one.inputs.push_back(group.inputs[reg]);
          operands.push_back(c.operands[reg]);
        } else {
          one.inputs.push_back(contiguous(values[reg - first].type.dtype, group.shape));
          operands.push_back(values[reg - first]);
        }
      }
    one.outputs = {static_cast<int16_t>(one.inputs.size() + one.constants.size())};
    const TensorType type = result_type(one, 0);
    values.push_back(run_kernel(prepare_eltwise(one), operands, std::span(&type, 1))[0]);
  }
  std::vector<TestTensor> results;
  for (const int16_t output : group.outputs) results.push_back(values[static_cast<size_t>(output) - first]);
  return results;
}

class RandomGroups : public ::testing::TestWithParam<Compute> {};
INSTANTIATE_TEST_SUITE_P(Computes, RandomGroups, ::testing::Values(Compute::kF32, Compute::kF64, Compute::kI64));

TEST_P(RandomGroups, FusedEqualsUnfusedBitForBit) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const GroupCase c = random_case(seed, GetParam());
    const auto fused = run_kernel(prepare_eltwise(c.group), c.operands, result_types(c.group));
    const auto unfused = run_unfused(c);
    for (size_t k = 0; k < fused.size(); ++k)
      ASSERT_TRUE(fused[k].same_bits(unfused[k]))
          << "seed " << seed << ": " << c.group.to_string() << " over " << c.group.shape.to_string();
  }
}

TEST_P(RandomGroups, MatchTheReference) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    GroupCase c = random_case(seed, GetParam());
    // A single instruction: errors of longer groups are unbounded.
    c.group.code.resize(1);
    c.group.outputs = {static_cast<int16_t>(c.group.inputs.size() + c.group.constants.size())};
    const auto got = run_kernel(prepare_eltwise(c.group), c.operands, result_types(c.group));
    const auto want = run_kernel(prepare_reference_eltwise(c.group), c.operands, result_types(c.group));
    expect_close(got[0], want[0], 64, 0, fmt::format("seed {}: {}", seed, c.group.to_string()));
  }
}

TEST_P(RandomGroups, AreBitIdenticalOnAnyIsaAndThreadCount) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    GroupCase c = random_case(seed, GetParam());
    std::vector<TestTensor> first;
    EveryIsa isas;
    isas.run([&](Isa isa) {
      for (const int threads : {1, 2, 3, 4}) {
        const auto got = run_kernel(prepare_eltwise(c.group), c.operands, result_types(c.group), threads);
        if (first.empty()) first = got;
        for (size_t k = 0; k < got.size(); ++k)
          ASSERT_TRUE(got[k].same_bits(first[k])) << "seed " << seed << ", " << threads << " threads, " << name_of(isa);
      }
    });
  }
}

TEST(Eltwise, LargeGroupsAreBitIdenticalInChunks) {
  const Shape shape{300, 1500};
  EltwiseGroup group{.shape = shape,
                     .inputs = {contiguous(DType::kF32, shape), {DType::kF32, {0, 1}}, {DType::kBf16, {1, 0}}},
                     .constants = {0.5},
                     .code = {{Op::kAdd, DType::kF32, {0, 1, -1}},
                              {Op::kTanh, DType::kF32, {4, -1, -1}},
                              {Op::kMul, DType::kBf16, {5, 2, -1}},
                              {Op::kMul, DType::kF32, {6, 3, -1}}},
                     .outputs = {6, 7}};
  const std::array operands = {random_tensor({DType::kF32, shape}, 1), random_tensor({DType::kF32, Shape{1500}}, 2),
                               random_tensor({DType::kBf16, Shape{300}}, 3)};
  const Kernel kernel = prepare_eltwise(group);
  const auto a = run_kernel(kernel, operands, result_types(group));
  const auto b = run_kernel(kernel, operands, result_types(group), 4);
  const auto want = run_kernel(prepare_reference_eltwise(group), operands, result_types(group));
  for (size_t k = 0; k < 2; ++k) {
    EXPECT_TRUE(a[k].same_bits(b[k]));
    expect_close(a[k], want[k], 2, 0x1p-7, "chunked");  // one bf16 step
  }
}

// ---- sharing of buffers, names --------------------------------------------------------------------------------------

TEST(Eltwise, AResultMayReuseTheBufferOfAnInput) {
  const Shape shape{5000};
  // The first output could overwrite input 0 before the last instruction reads it.
  EltwiseGroup group{.shape = shape,
                     .inputs = {contiguous(DType::kF32, shape), contiguous(DType::kF32, shape)},
                     .constants = {},
                     .code = {{Op::kMul, DType::kF32, {0, 1, -1}},
                              {Op::kAdd, DType::kF32, {2, 0, -1}},
                              {Op::kSub, DType::kF32, {3, 1, -1}}},
                     .outputs = {2, 4}};
  const std::array operands = {random_tensor({DType::kF32, shape}, 1), random_tensor({DType::kF32, shape}, 2)};
  const Kernel kernel = prepare_eltwise(group);
  const auto want = run_kernel(kernel, operands, result_types(group));
  for (const bool swapped : {false, true}) {
    const TestTensor a({DType::kF32, shape}, [&](int64_t i) { return operands[0][i]; });
    const TestTensor b({DType::kF32, shape}, [&](int64_t i) { return operands[1][i]; });
    const std::array in = {a.buffer->data(), b.buffer->data()};
    const std::array out = {(swapped ? b : a).buffer->data(), (swapped ? a : b).buffer->data()};
    kernel.run(kernel.params.get(), {.operands = in, .results = out, .scratch = nullptr, .pool = pool_of(1)});
    EXPECT_TRUE((swapped ? b : a).same_bits(want[0]));
    EXPECT_TRUE((swapped ? a : b).same_bits(want[1]));
  }
}

// Each output reuses the buffer of a contiguous input with the same element size, if there is one.
TEST_P(RandomGroups, AreBitIdenticalInPlace) {
  int shared = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const GroupCase c = random_case(seed, GetParam());
    const auto types = result_types(c.group);
    const Kernel kernel = prepare_eltwise(c.group);
    const auto want = run_kernel(kernel, c.operands, types);
    std::vector<TestTensor> operands, results(types.begin(), types.end());
    for (const TestTensor& operand : c.operands)
      operands.emplace_back(operand.type, [&](int64_t i) { return operand[i]; });
    std::vector<bool> taken(operands.size());
    for (TestTensor& result : results)
      for (size_t k = 0; k < operands.size(); ++k) {
        const EltwiseInput& input = c.group.inputs[k];
        if (taken[k] || size_of(input.dtype) != size_of(result.type.dtype) || input.strides != c.group.shape.strides())
          continue;
        taken[k] = true;
        ++shared;
        result.buffer = operands[k].buffer;
        break;
      }
    std::vector<std::byte*> in, out;
    for (const TestTensor& operand : operands) in.push_back(operand.buffer->data());
    for (const TestTensor& result : results) out.push_back(result.buffer->data());
    kernel.run(kernel.params.get(), {.operands = in, .results = out, .scratch = nullptr, .pool = pool_of(1)});
    for (size_t k = 0; k < results.size(); ++k)
      ASSERT_TRUE(results[k].same_bits(want[k])) << "seed " << seed << ": " << c.group.to_string();
  }
  EXPECT_GT(shared, 50);
}

TEST(Eltwise, TextNamesInputsConstantsAndOutputs) {
  EltwiseGroup group{.shape = Shape{4, 1, 6},
                     .inputs = {{DType::kF32, {6, 6, 1}},
                                {DType::kBf16, {0, 0, 1}},
                                {DType::kF32, {1, 0, 0}},
                                {DType::kI32, {12, 0, 2}}},
                     .constants = {2.0},
                     .code = {{Op::kGt, DType::kBool, {0, 4, -1}},
                              {Op::kWhere, DType::kBf16, {5, 1, 2}},
                              {Op::kAdd, DType::kF32, {6, 3, -1}}},
                     .outputs = {7, 5}};
  EXPECT_EQ(group.to_string(),
            "(f32, bf16, f32., i32~, const) r5 = gt:bool r0 r4; r6 = where:bf16 r5 r1 r2; r7 = add r6 r3 -> r7, r5");
}

EltwiseGroup group_of(const NamedGroup& named, const Shape& shape, bool broadcast_rows) {
  EltwiseGroup group{.shape = shape, .inputs = {}, .constants = {}, .code = {}, .outputs = {}};
  for (int k = 0; k < named.input_count; ++k) {
    EltwiseInput input = contiguous(named.inputs[k].dtype, shape);
    if (named.inputs[k].one_per_row)
      input.strides = {broadcast_rows ? 1 : 0, 0};
    else if (broadcast_rows && k > 0)
      input.strides[0] = 0;
    group.inputs.push_back(input);
  }
  for (int k = 0; k < named.constant_count; ++k) group.constants.push_back(0.25 * (k + 1));
  for (int k = 0; k < named.code_count; ++k) {
    const auto& code = named.code[k];
    group.code.push_back({code.op,
                          code.dtype,
                          {static_cast<int16_t>(code.sources[0]), static_cast<int16_t>(code.sources[1]),
                           static_cast<int16_t>(code.sources[2])}});
  }
  for (int k = 0; k < named.output_count; ++k) group.outputs.push_back(static_cast<int16_t>(named.outputs[k]));
  return group;
}

TEST(Eltwise, NamedLoopsAreBitIdenticalToTheVm) {
  for (const NamedLoop& loop : loops().named) {
    const NamedGroup named = NamedGroupParser(loop.text).parse();
    for (const bool broadcast_rows : {false, true})
      for (const Shape& shape : {Shape{1, 1000}, Shape{37, 130}, Shape{3, 5}, Shape{200, 600}}) {
        if (shape[0] == 200 && (&loop - loops().named.data()) % 8 != 0) continue;  // large enough for several chunks
        const EltwiseGroup group = group_of(named, shape, broadcast_rows);
        ASSERT_EQ(group.to_string(), loop.text) << "the text must equal to_string()";
        std::vector<TestTensor> operands;
        for (size_t k = 0; k < group.inputs.size(); ++k)
          operands.push_back(random_tensor({group.inputs[k].dtype, shape}, k + 1));
        const Kernel kernel = prepare_eltwise(group);
        ASSERT_EQ(kernel.name, fmt::format("eltwise.{}", loop.name));
        const auto want = run_kernel(prepare_eltwise_vm(group), operands, result_types(group));
        EveryIsa isas;
        isas.run([&](Isa isa) {
          for (const int threads : {1, 3}) {
            const auto got = run_kernel(prepare_eltwise(group), operands, result_types(group), threads);
            for (size_t k = 0; k < got.size(); ++k)
              ASSERT_TRUE(got[k].same_bits(want[k]))
                  << loop.name << " on " << name_of(isa) << " over " << shape.to_string();
          }
        });
      }
  }
}

// Loops with a table have an entry for each value of bf16.
TEST(Eltwise, ActivationsOfBf16AreBitIdenticalForAllValues) {
  const Shape all{1 << 16};
  TestTensor x({DType::kBf16, all}), bias({DType::kBf16, all}, [](int64_t) { return -0.0; });
  for (int64_t i = 0; i < all[0]; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    std::memcpy(x.at(i), &bits, sizeof bits);
  }
  const TestTensor operands[] = {x, bias};
  int loops_of_activations = 0;
  for (const NamedLoop& loop : loops().named) {
    const std::string_view name = loop.name;
    if (name.find("gelu") == name.npos || !name.ends_with("bf16")) continue;
    ++loops_of_activations;
    const EltwiseGroup group = group_of(NamedGroupParser(loop.text).parse(), all, false);
    const auto want = run_kernel(prepare_eltwise_vm(group), operands, result_types(group));
    EveryIsa isas;
    isas.run([&](Isa isa) {
      const auto got = run_kernel(prepare_eltwise(group), operands, result_types(group));
      for (size_t k = 0; k < got.size(); ++k) EXPECT_TRUE(got[k].same_bits(want[k])) << name << " on " << name_of(isa);
    });
  }
  EXPECT_EQ(loops_of_activations, 4);
}

EltwiseGroup flat_group(const char* text, int64_t elements) {
  return group_of(NamedGroupParser(text).parse(), Shape{elements}, false);
}

// A group that matches no single loop runs as a chain of several loops, block by block.
TEST(Eltwise, ChainsOfLoopsAreBitIdenticalToTheVm) {
  constexpr const char* kText =
      "(f32, f32, f32., f32, f32., bool., const, const, const) r9 = add r0 r1; r10 = mul r9 r2; r11 = lt:bool r10 r6; "
      "r12 = where r11 r6 r10; r13 = gt:bool r12 r7; r14 = where r13 r7 r12; r15 = mul r3 r8; r16 = add r14 r15; "
      "r17 = mul r16 r4; r18 = sub r3 r17; r19 = where r5 r18 r3 -> r19";
  for (const int64_t elements : {1, 63, 1024, 5000, 400'003}) {
    EltwiseGroup group = flat_group(kText, elements);
    group.constants = {-0.5, 0.75, 0.125};
    std::vector<TestTensor> operands;
    for (size_t k = 0; k < group.inputs.size(); ++k)
      operands.push_back(random_tensor({group.inputs[k].dtype, group.shape}, k + 1));
    const auto want = run_kernel(prepare_eltwise_vm(group), operands, result_types(group));
    if (elements > 1) {
      EXPECT_EQ(prepare_eltwise(group).name, "eltwise.add+scale_by+clamp+decay+sgd");
    }
    EveryIsa isas;
    isas.run([&](Isa isa) {
      for (const int threads : {1, 3}) {
        const auto got = run_kernel(prepare_eltwise(group), operands, result_types(group), threads);
        EXPECT_TRUE(got[0].same_bits(want[0])) << elements << " elements on " << name_of(isa);
      }
    });
  }
}

// A left fold over `ranks` inputs, like gradients of many ranks.
EltwiseGroup fold_of(int16_t ranks) {
  EltwiseGroup fold = flat_group("(f32, f32) r2 = add r0 r1 -> r2", 1000);
  fold.inputs.resize(static_cast<size_t>(ranks), fold.inputs.front());
  fold.code.clear();
  for (int16_t k = 1; k < ranks; ++k) {
    const auto so_far = static_cast<int16_t>(k == 1 ? 0 : ranks + k - 2);
    fold.code.push_back({Op::kAdd, DType::kF32, {so_far, k, -1}});
  }
  fold.outputs = {static_cast<int16_t>(2 * ranks - 2)};
  return fold;
}

// Returns the least CPU time of this thread of several runs of `work`, in seconds.
double cpu_seconds(const std::function<void()>& work) {
  const auto now = [] {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  double least = INFINITY;
  for (int run = 0; run < 5; ++run) {
    const double begin = now();
    work();
    least = std::min(least, now() - begin);
  }
  return least;
}

// The search for loops must grow with the number of loops, not with the group. The bound is between n² and n³.
TEST(Eltwise, PreparingAFoldGrowsSlowlyWithItsLength) {
  const auto prepare = [](int16_t ranks) {
    return [fold = fold_of(ranks)] {
      for (int i = 0; i < 20; ++i) EXPECT_TRUE(prepare_eltwise(fold).name.starts_with("eltwise.vm"));
    };
  };
  EXPECT_LT(cpu_seconds(prepare(128)), 32 * cpu_seconds(prepare(32)));
}

TEST(Eltwise, ChainsPassOnlyOneValueBetweenLoops) {
  // Two values, an early output, or a 16-bit intermediate: run by the interpreter.
  for (const char* text : {"(f32, f32, f32) r3 = add r0 r1; r4 = mul r0 r2; r5 = sub r3 r4 -> r5",
                           "(f32, f32, f32) r3 = add r0 r1; r4 = mul r3 r2 -> r3, r4",
                           "(f32) r1 = cast:bf16 r0; r2 = cast r1; r3 = relu r2 -> r3"})
    EXPECT_TRUE(prepare_eltwise(flat_group(text, 1000)).name.starts_with("eltwise.vm")) << text;
  EXPECT_EQ(prepare_eltwise(flat_group("(f32, f32, f32) r3 = add r0 r1; r4 = mul r3 r2 -> r4", 1000)).name,
            "eltwise.add+mul");
}

}  // namespace
}  // namespace runner::backends
