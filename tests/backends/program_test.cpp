// Programs: what the hash and the structural comparison cover, and the output of printer and verifier.
#include "backends/ir/program.h"

#include <gtest/gtest.h>

#include "backends/ir/ops.h"
#include "backends/ir/passes/passes.h"
#include "backends/ir/print.h"
#include "schema/base/error.h"

namespace runner::backends::testing {
namespace {

const TensorType kVector{DType::kF32, Shape{4}};

struct Variant {
  InputKind kind = InputKind::kState;
  std::string name = "x";
  int line = 1;
  TensorType type = kVector;
  Op op = Op::kSub;
  double constant = 2;
  bool swapped = false;
  int32_t target = -1;
  int outputs = 1;
};

Program build(const Variant& v) {
  Program program;
  program.set_mark({"a.lua", v.line, 0});
  const ValueId x = program.input(v.kind, v.name, v.type);
  const ValueId c = program.constant(v.constant, v.type);
  const ValueId operands[] = {v.swapped ? c : x, v.swapped ? x : c};
  const ValueId y = program.record(v.op, operands);
  for (int i = 0; i < v.outputs; ++i) program.output(v.name, y, v.target);
  return program;
}

// The size in bytes of any tensor is computed without overflow.
TEST(Program, ShapesHaveLessThanTwoToTheSixtyElements) {
  constexpr int64_t kLargest = int64_t{1} << 59;
  EXPECT_EQ((TensorType{DType::kI64, Shape{kLargest}}.bytes()), size_t{1} << 62);
  EXPECT_EQ((Shape{kLargest, 0, kLargest}.elements()), 0);
  EXPECT_THROW((Shape{kLargest, 2}), Error);
  EXPECT_THROW((Shape{2, 2, kLargest}), Error);
}

TEST(Program, HashAndStructureCoverTheComputation) {
  const Program base = build({});
  const Variant different[] = {{.kind = InputKind::kBatch},
                               {.type = {DType::kF64, Shape{4}}},
                               {.type = {DType::kF32, Shape{5}}},
                               {.type = {DType::kF32, Shape{4, 1}}},
                               {.op = Op::kAdd},
                               {.constant = 3},
                               {.constant = -0.0},
                               {.swapped = true},
                               {.target = 0},
                               {.outputs = 2}};
  for (const Variant& variant : different) {
    EXPECT_FALSE(build(variant).same_structure(base));
    EXPECT_NE(build(variant).hash(), base.hash());
    EXPECT_NE(build(variant).hash().lo, base.hash().lo);
  }
}

TEST(Program, HashAndStructureIgnoreNamesAndLines) {
  const Program other = build({.name = "y", .line = 9});
  EXPECT_TRUE(other.same_structure(build({})));
  EXPECT_EQ(other.hash(), build({}).hash());
}

TEST(Program, SameOpsIgnoreTypesAttributesAndOutputs) {
  const Program base = build({});
  const Variant same[] = {
      {.kind = InputKind::kBatch}, {.type = {DType::kF64, Shape{5}}}, {.constant = 3}, {.target = 0}, {.outputs = 2}};
  for (const Variant& variant : same) EXPECT_TRUE(same_ops(build(variant), base));
  EXPECT_FALSE(same_ops(build({.op = Op::kAdd}), base));
  EXPECT_FALSE(same_ops(build({.swapped = true}), base));
  Program longer = build({});
  longer.constant(0, kVector);
  EXPECT_FALSE(same_ops(longer, base));
  EXPECT_FALSE(same_ops(base, longer));
}

TEST(Program, HashCoversAttributesThatDoNotAffectTypes) {
  const auto sliced = [](int64_t start) {
    Program program;
    const Value x{&program, program.input(InputKind::kBatch, "x", kVector)};
    program.output("y", ops::slice(x, 0, start, start + 2).id);
    return program;
  };
  EXPECT_NE(sliced(0).hash(), sliced(1).hash());
  EXPECT_FALSE(sliced(0).same_structure(sliced(1)));
}

TEST(Program, ConstantsAreRoundedToTheirDtype) {
  Program program;
  const auto value = [&](double x, DType dtype) { return program.constant_value(program.constant(x, {dtype, {}})); };
  EXPECT_EQ(value(0.1, DType::kF64), 0.1);
  EXPECT_EQ(value(0.1, DType::kF32), static_cast<double>(0.1f));
  EXPECT_EQ(value(257, DType::kBf16), 256);
  EXPECT_EQ(value(1e6, DType::kF16), std::numeric_limits<double>::infinity());
  EXPECT_EQ(value(-2.7, DType::kI64), -2);
  EXPECT_EQ(value(0.5, DType::kBool), 1);
}

TEST(Program, LinesBelongToNodes) {
  Program program;
  program.set_mark({"a.lua", 3, 0});
  const ValueId x = program.input(InputKind::kBatch, "x", kVector);
  program.set_mark({"b.lua", 4, 7});
  const ValueId operands[] = {x};
  const ValueId y = program.record(Op::kNeg, operands);
  EXPECT_EQ(program.mark_of(x).to_string(), "a.lua:3");
  EXPECT_EQ(program.mark_of(y).to_string(), "b.lua:4:7");
  EXPECT_EQ(program.mark().to_string(), "b.lua:4:7");
}

TEST(Program, VerifierRejectsAStateThatIsUpdatedTwice) {
  Program program = build({.target = 0, .outputs = 2});
  EXPECT_EQ(verify(program), "state 'x' is updated twice");
  EXPECT_EQ(verify(build({.target = 0})), "");
}

TEST(Program, PrintsEveryKindOfAttribute) {
  Program program;
  const Value x{&program, program.input(InputKind::kState, "x", {DType::kF32, Shape{2, 3}})};
  const Value key{&program, program.input(InputKind::kBatch, "key", {DType::kI64, Shape{2}})};
  const Value rate{&program, program.input(InputKind::kScalar, "lr", {})};
  const Value half = ops::full_like(x, 0.5);
  const Value cut = ops::slice(x, 1, 0, 2);
  const Value mask = ops::dropout_mask(key, key, x.shape(), 3, 0.25);
  const Value loss = ops::cross_entropy(x, key, {.ignore_index = 1, .label_smoothing = 0.1, .class_weights = {}});
  const Value uniform = ops::random_uniform(key, {2}, 0), normal = ops::random_normal(key, {2}, 5);
  program.output("loss", ops::add(loss, ops::add(uniform, normal)).id);
  program.output("", ops::mul(half, mask).id, 0);
  (void)rate, (void)cut;
  EXPECT_EQ(to_string(program),
            "%0 = input state 'x' : (2, 3) f32\n"
            "%1 = input batch 'key' : (2) i64\n"
            "%2 = input scalar 'lr' : () f32\n"
            "%3 = constant 0.5 : (2, 3) f32\n"
            "%4 = slice %0 {0, 2, 1, 0, 2, 1} : (2, 2) f32\n"
            "%5 = dropout_mask %1 %1 {layer 3, p 0.25} : (2, 3) f32\n"
            "%6 = cross_entropy %0 %1 {ignore_index 1, label_smoothing 0.1} : (2) f32\n"
            "%7 = random_uniform %1 {stream 0} : (2) f32\n"
            "%8 = random_normal %1 {stream 5} : (2) f32\n"
            "%9 = add %7 %8 : (2) f32\n"
            "%10 = add %6 %9 : (2) f32\n"
            "%11 = mul %3 %5 : (2, 3) f32\n"
            "return 'loss' = %10\n"
            "update 'x' = %11\n");
}

}  // namespace
}  // namespace runner::backends::testing
