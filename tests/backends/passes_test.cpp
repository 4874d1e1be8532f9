// What each pass changes and, as important, what it leaves unchanged.
#include "backends/ir/passes/passes.h"

#include <gtest/gtest.h>

#include "backends/ir/ops.h"
#include "backends/ir/print.h"
#include "tests/backends/support/op_by_op_device.h"
#include "tests/backends/support/run_program.h"

namespace runner::backends::testing {
namespace {

int count(const Program& program, Op op) {
  int n = 0;
  for (ValueId id = 0; id < program.size(); ++id) n += program.node(id).op == op;
  return n;
}

// y = f(x) for values that reveal careless algebra.
struct OfSpecials {
  Program program;
  Inputs inputs;

  explicit OfSpecials(const std::function<Value(Value)>& f) {
    constexpr double kSpecials[] = {0.0, -0.0, 1.5, -2, HUGE_VAL, -HUGE_VAL, NAN, 1e-42};
    inputs = {HostTensor({DType::kF32, Shape{8}}, kSpecials)};
    const Value x{&program, program.input(InputKind::kBatch, "x", inputs[0].type)};
    program.output("y", f(x).id);
  }
};

TEST(Passes, FoldRemovesOnlyExactIdentities) {
  struct Folding {
    Op op;
    bool dropped;
    std::function<Value(Value)> f;
  };
  const Folding cases[] = {
      {Op::kMul, true, [](Value x) { return ops::mul(x, 1.0); }},
      {Op::kMul, true, [](Value x) { return ops::mul(ops::full_like(x, 1.0), x); }},
      {Op::kMul, false, [](Value x) { return ops::mul(x, 0.0); }},  // NaN, −0
      {Op::kMul, false, [](Value x) { return ops::mul(x, -1.0); }},
      {Op::kDiv, true, [](Value x) { return ops::div(x, 1.0); }},
      {Op::kDiv, false, [](Value x) { return ops::div(0.0, x); }},
      {Op::kSub, true, [](Value x) { return ops::sub(x, 0.0); }},
      {Op::kSub, false, [](Value x) { return ops::sub(x, -0.0); }},  // −0 − −0 = 0
      {Op::kSub, false, [](Value x) { return ops::sub(x, x); }},     // ∞ − ∞
      {Op::kAdd, false, [](Value x) { return ops::add(x, 0.0); }},   // −0 + 0 = 0
      {Op::kExp, false, [](Value x) { return ops::exp(ops::full_like(x, 0.5)); }},
      {Op::kAdd, true, [](Value x) { return ops::mul(x, ops::add(ops::full_like(x, 0.25), 0.5)); }},
      {Op::kWhere, true, [](Value x) { return ops::where(ops::full_like(ops::is_finite(x), 0), x, ops::neg(x)); }},
      {Op::kWhere, false, [](Value x) { return ops::where(ops::is_finite(x), x, x); }},
  };
  OpByOpDevice device;
  for (const Folding& c : cases) {
    const OfSpecials recorded(c.f);
    const Program folded = dce(fold(recorded.program));
    EXPECT_EQ(count(folded, c.op), c.dropped ? 0 : 1) << name_of(c.op);
    EXPECT_EQ(run_program(device, folded, recorded.inputs), run_program(device, recorded.program, recorded.inputs));
  }
}

TEST(Passes, CseMergesOnlyEqualNodes) {
  Program program;
  const Value x{&program, program.input(InputKind::kBatch, "x", {DType::kF32, Shape{4}})};
  const Value z{&program, program.input(InputKind::kBatch, "z", {DType::kF32, Shape{4}})};
  const Value same = ops::add(ops::exp(x), ops::exp(x));
  const Value others = ops::add(ops::slice(x, 0, 0, 2), ops::slice(x, 0, 1, 3));
  const Value zeros = ops::sub(ops::mul(x, 0.0), ops::mul(x, -0.0));  // constants that differ in one bit
  program.output("y", ops::concat(std::vector<Value>{same, others, zeros, ops::exp(z)}, 0).id);
  const Program merged = dce(cse(program));
  EXPECT_EQ(count(merged, Op::kExp), 2);
  EXPECT_EQ(count(merged, Op::kSlice), 2);
  EXPECT_EQ(count(merged, Op::kMul), 2);
}

// Random numbers are drawn when the Program runs, even if the key is constant, and are merged only if they are equal.
TEST(Passes, RandomTensorsAreNotFoldedAndMergedOnlyIfEqual) {
  Program program;
  const Value key{&program, program.input(InputKind::kBatch, "key", {DType::kI64, Shape{2}})};
  const Value other{&program, program.input(InputKind::kBatch, "other", {DType::kI64, Shape{2}})};
  const Value known{&program, program.constant(7, {DType::kI64, Shape{2}})};
  const auto give = [&](Value value) { program.output("x", ops::sum(value).id); };
  give(ops::random_normal(key, {6}, 0));
  give(ops::random_normal(key, {6}, 0));  // the same again
  give(ops::random_normal(key, {6}, 1));
  give(ops::random_normal(key, {2, 3}, 0));
  give(ops::random_normal(other, {6}, 0));
  give(ops::random_normal(known, {6}, 0));
  give(ops::random_uniform(key, {6}, 0));
  const Program optimised = optimise(program);
  EXPECT_EQ(count(optimised, Op::kRandomNormal), 5);
  EXPECT_EQ(count(optimised, Op::kRandomUniform), 1);
}

// Other ranks wait for each of them.
TEST(Passes, CollectivesAreNeitherMergedNorRemoved) {
  Program program;
  const Value x{&program, program.input(InputKind::kBatch, "x", {DType::kF32, Shape{4}})};
  ops::all_reduce(x, Reduction::kSum, Subject::kGradients);
  ops::all_reduce(x, Reduction::kSum, Subject::kGradients);
  ops::all_reduce(ops::exp(x), Reduction::kSum, Subject::kGradients);
  ops::tanh(x);
  program.output("y", ops::neg(x).id);
  const Program optimised = optimise(program);
  EXPECT_EQ(count(optimised, Op::kAllReduce), 3);
  EXPECT_EQ(count(optimised, Op::kExp), 1);
  EXPECT_EQ(count(optimised, Op::kTanh), 0);
}

TEST(Passes, DceKeepsInputs) {
  Program program;
  const Value a{&program, program.input(InputKind::kState, "a", {DType::kF32, Shape{4}})};
  const Value b{&program, program.input(InputKind::kBatch, "b", {DType::kF32, Shape{4}})};
  ops::exp(a);
  program.output("y", ops::neg(b).id);
  const Program live = dce(program);
  EXPECT_EQ(live.size(), 3);
  ASSERT_EQ(live.inputs().size(), 2u);
  EXPECT_EQ(live.inputs()[0].name, "a");
  EXPECT_EQ(live.inputs()[1].kind, InputKind::kBatch);
}

TEST(Passes, KeepSourceLines) {
  Program program;
  program.set_mark({"a.lua", 1, 0});
  const Value x{&program, program.input(InputKind::kBatch, "x", {DType::kF32, Shape{4}})};
  program.set_mark({"a.lua", 2, 0});
  const Value y = ops::exp(ops::mul(x, 1.0));
  program.set_mark({"a.lua", 3, 0});
  program.output("y", ops::neg(y).id);
  const Program plain = legalise(optimise(program));
  ASSERT_EQ(plain.size(), 3);
  for (ValueId id = 0; id < 3; ++id) EXPECT_EQ(plain.mark_of(id).line, id + 1);
}

// Without folding, element-wise kernels would read a register with the wrong type.
TEST(Passes, LegaliseFoldsConstantConditionsAndComparisons) {
  Program program;
  const TensorType type{DType::kF64, {}};
  const Value x{&program, program.input(InputKind::kBatch, "x", type)};
  const Value one = ops::full_like(x, 1.0), yes = scalar(program, 1, DType::kBool);
  const Value tiny = ops::full_like(x, 1e-300);
  program.output("picked", ops::where(yes, ops::add(x, one), one).id);
  program.output("greater", ops::gt(tiny, ops::full_like(x, 0.0)).id);
  program.output("true", ops::cast(tiny, DType::kBool).id);
  program.output("large", ops::is_finite(ops::full_like(x, 1e300)).id);
  WorkerPool pool(1);
  const Inputs inputs = {HostTensor(type, [](int64_t) { return 2.5; })};
  for (const bool optimised : {false, true})
    for (const Fusion fusion : {Fusion::kNone, Fusion::kAll}) {
      const Results results = run_plan_once(program, inputs, {.optimise = optimised, .fusion = fusion}, pool);
      EXPECT_EQ(results.outputs[0][0], 3.5);
      for (size_t i = 1; i < 4; ++i) EXPECT_EQ(results.outputs[i][0], 1) << i;
    }
}

// Values that a hook does not use are not part of the graph, nor are the scalars and lists it passed for them. Inputs
// that all Programs begin with keep their position.
TEST(Passes, LivePartDropsUnusedNodes) {
  Program program;
  const TensorType type{DType::kF32, Shape{4}};
  program.input(InputKind::kBatch, "unused", type);
  const Value x{&program, program.input(InputKind::kBatch, "x", type)};
  const Value loss = ops::sum(x);
  const Value number{&program, program.input(InputKind::kScalar, "number", {DType::kF32, {}})};
  ops::mul(ops::neg(x), ops::expand(number, type.shape));
  const Value doubled = ops::add(loss, loss);
  program.output("loss", doubled.id);
  EXPECT_EQ(to_string(prune(program, Keep::kLeadingInputs)), R"(%0 = input batch 'unused' : (4) f32
%1 = input batch 'x' : (4) f32
%2 = sum %1 {0} : () f32
%3 = add %2 %2 : () f32
return 'loss' = %3
)");
}

// The weights are constant, the sum is not. What only the constant part or a view needs is not kept.
TEST(Passes, HoistComputesOnceWhatDependsOnConstantStates) {
  Program program;
  const auto state = [&](const char* name, Shape shape) {
    return Value{&program, program.input(InputKind::kState, name, {DType::kF32, std::move(shape)})};
  };
  const Value weights = state("weights", Shape{12});
  const Value x{&program, program.input(InputKind::kBatch, "x", {DType::kF32, Shape{2, 3}})};
  const Value sum = state("sum", Shape{2, 4});
  const Value rounded = ops::cast(ops::mul(weights, 2.0), DType::kBf16);
  const Value product = ops::matmul(ops::cast(x, DType::kBf16), ops::reshape(rounded, Shape{3, 4}));
  program.output("sum", ops::add(sum, ops::cast(product, DType::kF32)).id, /*state=*/2);
  program.output("product", product.id);

  const Hoisted parts = hoist(program, /*constant_states=*/1);
  ASSERT_EQ(parts.values.size(), 1u);
  EXPECT_EQ(verify(parts.values[0]), "");
  EXPECT_EQ(verify(parts.rest), "");
  EXPECT_EQ(to_string(parts.values[0]), R"(%0 = input state 'hoisted' : (12) bf16
%1 = input state 'weights' : (12) f32
%2 = constant 2 : (12) f32
%3 = mul %1 %2 : (12) f32
%4 = cast %3 : (12) bf16
update 'hoisted' = %4
)");
  EXPECT_EQ(count(parts.rest, Op::kMul), 0);

  const auto values = [](TensorType type) {
    return HostTensor(std::move(type), [](int64_t i) { return 0.3 * static_cast<double>(i) - 1; });
  };
  const HostTensor of_weights = values(program.type(weights.id)), of_x = values(program.type(x.id)),
                   of_sum = values(program.type(sum.id));
  OpByOpDevice device;
  const Results want = run_program(device, program, {of_weights, of_x, of_sum}, /*times=*/2);
  const HostTensor unset({DType::kBf16, Shape{12}});
  const HostTensor of_rounded = run_program(device, parts.values[0], {unset, of_weights}).states[0];
  const Results got = run_program(device, parts.rest, {of_rounded, of_weights, of_x, of_sum}, /*times=*/2);
  EXPECT_EQ(got.outputs, want.outputs);
  EXPECT_EQ(got.states[2], want.states[1]);
}

// A Program without such values is not changed: inputs, views, and values that also depend on others stay.
TEST(Passes, HoistLeavesInputsAndViews) {
  Program program;
  const Value weights{&program, program.input(InputKind::kState, "weights", {DType::kF32, Shape{12}})};
  const Value x{&program, program.input(InputKind::kBatch, "x", {DType::kF32, Shape{2, 3}})};
  program.output("y", ops::matmul(x, ops::reshape(weights, Shape{3, 4})).id);
  program.output("numbers", ops::neg(ops::arange(program, 3)).id);
  const Hoisted parts = hoist(program, /*constant_states=*/1);
  EXPECT_TRUE(parts.values.empty());
  EXPECT_TRUE(parts.rest.same_structure(dce(program)));
}

}  // namespace
}  // namespace runner::backends::testing
