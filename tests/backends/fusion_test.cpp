// Where the nodes of a Program are computed: groups after merging, and nodes that move to a later group.
#include "backends/exec/fusion.h"

#include <gtest/gtest.h>

#include "backends/exec/plan.h"
#include "backends/ir/autograd.h"
#include "backends/ir/ops.h"
#include "backends/ir/passes/passes.h"
#include "tests/backends/kernels_harness.h"
#include "tests/backends/support/run_program.h"

namespace runner::backends::testing {
namespace {

class FusionTest : public ::testing::Test {
 protected:
  Value input(DType dtype, const Shape& shape) {
    return {&program_, program_.input(InputKind::kBatch, "x", {dtype, shape})};
  }
  void returns(Value value) { program_.output("y", value.id); }
  // Whether one kernel computes both.
  bool are_together(Value a, Value b, Fusion fusion = Fusion::kAll) const {
    for (const Group& group : make_groups(program_, fusion))
      if (std::ranges::count(group.nodes, a.id) > 0) return std::ranges::count(group.nodes, b.id) > 0;
    return false;
  }

  Program program_;
};

TEST_F(FusionTest, MaskIsComputedWhereItIsReadIfItsActivationIsThere) {
  const Value x = input(DType::kF32, {64, 64});
  const Value relu = ops::relu(ops::add(ops::matmul(x, x), 1.0)), mask = ops::gt(relu, 0.0);
  const Value y = ops::matmul(relu, relu), up = ops::matmul(y, x);
  returns(ops::matmul(relu, up));  // reads the activation again
  const Value grad = ops::where(mask, up, ops::full_like(up, 0));
  returns(grad);
  EXPECT_TRUE(are_together(mask, grad));
  EXPECT_FALSE(are_together(mask, grad, Fusion::kNone));
}

// The mask takes a quarter of the bytes of an activation that nothing else reads for as long.
TEST_F(FusionTest, MaskIsStoredIfItsActivationWouldLiveLonger) {
  const Value x = input(DType::kF32, {64, 64});
  const Value relu = ops::relu(ops::add(ops::matmul(x, x), 1.0)), mask = ops::gt(relu, 0.0);
  const Value up = ops::matmul(ops::matmul(relu, x), x);
  const Value grad = ops::where(mask, up, ops::full_like(up, 0));
  returns(grad);
  EXPECT_TRUE(are_together(relu, mask));
  EXPECT_FALSE(are_together(mask, grad));
}

TEST_F(FusionTest, ValuesOfSeveralReadersStay) {
  const Value x = input(DType::kF32, {64, 64});
  const Value a = ops::relu(ops::matmul(x, x)), b = ops::exp(a);
  returns(ops::matmul(a, x));
  returns(ops::matmul(b, x));
  returns(ops::add(b, ops::matmul(a, a)));
  EXPECT_TRUE(are_together(a, b));
}

TEST_F(FusionTest, NodesMoveWithTheNodesThatOnlyLeadToThem) {
  const Value x = input(DType::kBf16, {64, 64});
  const Value a = ops::relu(ops::matmul(x, x)), wide = ops::cast(a, DType::kF32), scaled = ops::mul(wide, 3.0);
  const Value other = ops::cast(ops::matmul(a, a), DType::kF32);
  const Value last = ops::add(scaled, other);
  returns(ops::matmul(a, x));
  returns(last);
  EXPECT_TRUE(are_together(scaled, last));
  EXPECT_TRUE(are_together(wide, last));
  EXPECT_FALSE(are_together(a, last));
}

// A kernel must not read a view of its own result: other threads write other rows.
TEST_F(FusionTest, NodesStayIfTheirReaderAlsoReadsAViewOfThem) {
  const Shape shape{512, 256};
  const Value x = input(DType::kF32, shape);
  const Value h = ops::mul(x, x), id = ops::exp(h);
  const Value y = ops::sub(id, ops::expand(ops::slice(id, 0, 0, 1), shape));
  returns(h);
  returns(y);
  EXPECT_TRUE(are_together(h, id));
  EXPECT_FALSE(are_together(id, y));
  const std::vector<HostTensor> tensors{
      HostTensor({DType::kF32, shape}, [](int64_t i) { return static_cast<double>(i % 97) / 97; })};
  const Results want = run_plan_once(program_, tensors, {.fusion = Fusion::kNone}, pool_of(1));
  const Results got = run_plan_once(program_, tensors, {}, pool_of(4));
  for (size_t i = 0; i < want.outputs.size(); ++i) EXPECT_EQ(got.outputs[i], want.outputs[i]) << i;
}

// ---- casts ---------------------------------------------------------------------------------------------------------

TEST_F(FusionTest, ReadersBehindAKernelGetACastOfTheirOwn) {
  const Value x = input(DType::kBf16, {8, 8});
  const Value wide = ops::cast(x, DType::kF32), near = ops::exp(wide);
  const Value product = ops::matmul(near, near);
  returns(ops::add(product, wide));
  const Program repeated = repeat_casts(program_);
  EXPECT_EQ(verify(repeated), "");
  int casts = 0;
  for (ValueId id = 0; id < repeated.size(); ++id) casts += repeated.node(id).op == Op::kCast;
  EXPECT_EQ(casts, 2);
}

TEST_F(FusionTest, ReadersBeforeAKernelShareACast) {
  const Value x = input(DType::kBf16, {8, 8});
  const Value wide = ops::cast(x, DType::kF32);
  const Value sum = ops::add(ops::exp(wide), wide);
  returns(ops::matmul(sum, sum));
  EXPECT_EQ(repeat_casts(program_).size(), program_.size());
}

// ---- sums of pads --------------------------------------------------------------------------------------------------

int count_of(const Program& program, Op op) {
  int count = 0;
  for (ValueId id = 0; id < program.size(); ++id) count += program.node(id).op == op;
  return count;
}

TEST_F(FusionTest, PadsThatFillAnAxisAreJoined) {
  const Value a = input(DType::kF32, {2, 3}), b = input(DType::kF32, {2, 4}), c = input(DType::kF32, {2, 1});
  const Value padded[] = {ops::pad(ops::exp(a), 1, 4, 1), ops::pad(b, 1, 0, 4), ops::pad(c, 1, 7, 0)};
  returns(ops::add(padded[0], ops::add(padded[1], padded[2])));
  const Program joined = join_pads(program_);
  EXPECT_EQ(verify(joined), "");
  EXPECT_EQ(count_of(joined, Op::kConcat), 1);
  EXPECT_EQ(count_of(joined, Op::kPad) + count_of(joined, Op::kAdd), 0);
  std::vector<HostTensor> tensors;
  for (const Value x : {a, b, c})
    tensors.emplace_back(x.type(), [&](int64_t i) { return static_cast<double>(i) + 1 + x.id; });
  EXPECT_EQ(run_plan_once(program_, tensors, {}, pool_of(1)).outputs,
            run_plan_once(program_, tensors, {.fusion = Fusion::kNone}, pool_of(1)).outputs);
}

// Thirds of a tensor, as attention_grad returns them, and pads that put them where they were.
TEST_F(FusionTest, PartsOfOneTensorAreNotCopied) {
  const Value x = input(DType::kF32, {24}), all = ops::exp(x);
  const auto third = [&](int64_t i, int64_t place) {
    return ops::pad(ops::reshape(ops::slice(all, 0, 8 * i, 8 * i + 8), Shape{1, 2, 4}), 0, place, 2 - place);
  };
  returns(ops::transpose(ops::add(third(0, 0), ops::add(third(1, 1), third(2, 2))), 0, 1));
  const Program joined = join_pads(program_);
  EXPECT_EQ(verify(joined), "");
  EXPECT_EQ(count_of(joined, Op::kConcat) + count_of(joined, Op::kPad) + count_of(joined, Op::kSlice), 0);
  const std::vector<HostTensor> tensors{{x.type(), [](int64_t i) { return static_cast<double>(i) * 0.1; }}};
  EXPECT_EQ(run_plan_once(program_, tensors, {}, pool_of(1)).outputs,
            run_plan_once(program_, tensors, {.fusion = Fusion::kNone}, pool_of(1)).outputs);
  returns(ops::add(third(0, 1), ops::add(third(1, 0), third(2, 2))));  // in another order
  EXPECT_EQ(count_of(join_pads(program_), Op::kConcat), 1);
  const auto column = [&](int64_t i) {
    return ops::pad(ops::reshape(ops::slice(all, 0, 12 * i, 12 * i + 12), Shape{6, 2}), 1, 2 * i, 2 - 2 * i);
  };
  returns(ops::add(column(0), column(1)));  // of rows that are not one after the other
  EXPECT_EQ(count_of(join_pads(program_), Op::kConcat), 2);
}

TEST_F(FusionTest, OtherSumsOfPadsStay) {
  const Value a = input(DType::kF32, {2, 3}), square = input(DType::kF32, {3, 3}), whole = input(DType::kF32, {2, 6});
  returns(ops::add(ops::pad(a, 1, 0, 3), ops::pad(a, 1, 2, 1)));  // they overlap
  returns(ops::add(ops::pad(a, 1, 0, 4), ops::pad(a, 1, 4, 0)));  // a gap
  returns(ops::add(ops::pad(a, 1, 0, 3), whole));                 // a term that is no pad
  returns(ops::add(ops::pad(a, 1, 0, 3), ops::expand(ops::full_like(ops::sum(a), 0), Shape{2, 6})));
  const int64_t both[] = {0, 1, 0, 3};
  const ValueId of_two_axes = program_.record(Op::kPad, {{a.id}}, both);
  returns(ops::add({&program_, of_two_axes}, ops::pad(square, 1, 3, 0)));
  EXPECT_EQ(count_of(join_pads(program_), Op::kConcat), 0);
}

TEST_F(FusionTest, GradientsOfSlicesAreJoined) {
  const Value x = input(DType::kF32, {4, 6});
  Value sum = ops::sum(ops::exp(ops::slice(x, 1, 0, 2)));
  sum = ops::add(sum, ops::add(ops::sum(ops::tanh(ops::slice(x, 1, 2, 4))), ops::sum(ops::slice(x, 1, 4, 6))));
  for (const Value grad : differentiate(sum, ops::full_like(sum, 1.0), {&x, 1})) returns(grad);
  const Program joined = join_pads(optimise(program_));
  EXPECT_EQ(count_of(joined, Op::kConcat), 1);
  EXPECT_EQ(count_of(joined, Op::kPad), 0);
}

}  // namespace
}  // namespace runner::backends::testing
