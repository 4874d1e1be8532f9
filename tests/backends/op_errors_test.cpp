// Error messages of ops: the message of every type rule, and its source line.
#include <functional>
#include <set>

#include <gtest/gtest.h>

#include "backends/ir/ops.h"
#include "schema/base/error.h"
#include "tests/backends/support/run_program.h"

namespace runner::backends::testing {
namespace {

constexpr DType f32 = DType::kF32, f64 = DType::kF64, i64 = DType::kI64, boolean = DType::kBool;

// Records inputs on line 1 and the op under test on line 2.
struct Recorder {
  Program program;

  Value operator()(DType dtype, const Shape& shape) {
    program.set_mark({"model.lua", 1, 0});
    const Value value{&program, program.input(InputKind::kBatch, "x", {dtype, shape})};
    program.set_mark({"model.lua", 2, 0});
    return value;
  }
  Value record(Op op, std::initializer_list<Value> operands, std::vector<int64_t> attrs = {},
               const TensorType& requested = {}) {
    std::vector<ValueId> ids;
    for (const Value operand : operands) ids.push_back(operand.id);
    return {&program, program.record(op, ids, attrs, requested)};
  }
};

struct ErrorCase {
  std::function<void(Recorder&)> record;
  std::string message;
};

using R = Recorder&;

std::vector<ErrorCase> unary_cases() {
  std::vector<ErrorCase> cases;
  for (const Op op : {Op::kExp, Op::kLog, Op::kLog1p, Op::kSqrt, Op::kRsqrt, Op::kTanh, Op::kSigmoid, Op::kErf,
                      Op::kRelu, Op::kGelu, Op::kGeluTanh, Op::kSilu, Op::kIsFinite})
    cases.push_back({[op](R x) {
                       ops::unary(op, x(i64, {2, 3}));
                     },
                     fmt::format("{}: expected a float tensor, got (2, 3) i64", name_of(op))});
  for (const Op op : {Op::kNeg, Op::kAbs, Op::kSign})
    cases.push_back({[op](R x) { ops::unary(op, x(boolean, {4})); },
                     fmt::format("{}: expected a tensor of numbers, got (4) bool", name_of(op))});
  cases.push_back({[](R x) { ops::unary(Op::kNot, x(f32, {4})); }, "not: expected a bool tensor, got (4) f32"});
  return cases;
}

std::vector<ErrorCase> binary_cases() {
  std::vector<ErrorCase> cases;
  const auto mixed = [&](Op op, DType a, DType b) {
    cases.push_back({[=](R x) { ops::binary(op, x(a, {2}), x(b, {2})); },
                     fmt::format("{}: expected operands of the same dtype, got (2) {} and (2) {}; cast one of them",
                                 name_of(op), name_of(a), name_of(b))});
  };
  for (const Op op : {Op::kAdd, Op::kSub, Op::kMul, Op::kDiv, Op::kPow, Op::kMin, Op::kMax, Op::kEq, Op::kNe, Op::kLt,
                      Op::kLe, Op::kGt, Op::kGe})
    mixed(op, f32, f64);
  for (const Op op : {Op::kAnd, Op::kOr}) {
    mixed(op, boolean, f32);
    cases.push_back({[op](R x) { ops::binary(op, x(f32, {2}), x(f32, {2})); },
                     fmt::format("{}: expected bool tensors, got (2) f32", name_of(op))});
  }
  for (const Op op : {Op::kAdd, Op::kSub, Op::kMul, Op::kMin, Op::kMax})
    cases.push_back({[op](R x) { ops::binary(op, x(boolean, {2}), x(boolean, {2})); },
                     fmt::format("{}: expected tensors of numbers, got (2) bool", name_of(op))});
  for (const Op op : {Op::kDiv, Op::kPow})
    cases.push_back({[op](R x) { ops::binary(op, x(i64, {2}), x(i64, {2})); },
                     fmt::format("{}: expected float tensors, got (2) i64", name_of(op))});
  cases.push_back({[](R x) {
                     ops::mul(x(f32, {2, 3}), x(f32, {4}));
                   },
                   "mul: cannot broadcast (2, 3) f32 and (4) f32: sizes 3 and 4 at axis -1"});
  return cases;
}

std::vector<ErrorCase> other_cases() {
  const std::vector<int64_t> first = {0}, third = {2}, twice = {0, -2}, one = {1};
  return {
      {[](R x) { ops::where(x(f32, {2}), x(f32, {2}), x(f32, {2})); }, "where: expected a bool condition, got (2) f32"},
      {[](R x) { ops::where(x(boolean, {2}), x(f32, {2}), x(f64, {2})); },
       "where: expected operands of the same dtype, got (2) f32 and (2) f64; cast one of them"},
      {[](R x) { ops::where(x(boolean, {3}), x(f32, {2}), x(f32, {2})); },
       "where: cannot broadcast (3) bool and (2) f32: sizes 3 and 2 at axis -1"},
      {[](R x) { ops::where(x(boolean, {2}), x(f32, {2}), x(f32, {3})); },
       "where: cannot broadcast (2) f32 and (3) f32: sizes 2 and 3 at axis -1"},

      {[](R x) { ops::sum(x(boolean, {2})); }, "sum: expected a tensor of numbers, got (2) bool"},
      {[](R x) { ops::reduce_max(x(boolean, {2})); }, "reduce_max: expected a tensor of numbers, got (2) bool"},
      {[](R x) {
         ops::reduce_min(x(f32, {2, 0}));
       },
       "reduce_min: axis 1 of (2, 0) f32 is empty"},
      {[](R x) {
         ops::reduce_max(x(f32, {2, 0}));
       },
       "reduce_max: axis 1 of (2, 0) f32 is empty"},
      {[](R x) {
         ops::argmax(x(f32, {0, 2}), 0);
       },
       "argmax: axis 0 of (0, 2) f32 is empty"},
      {[=](R x) {
         ops::sum(x(f32, {2, 3}), third);
       },
       "sum: axis 2 is out of range for (2, 3) f32"},
      {[=](R x) {
         ops::reduce_min(x(f32, {2, 3}), twice);
       },
       "reduce_min: an axis of (2, 3) f32 occurs twice"},
      {[](R x) {
         ops::argmax(x(f32, {2, 3}), -3);
       },
       "argmax: axis -3 is out of range for (2, 3) f32"},
      {[](R x) { ops::mean(x(i64, {2})); }, "mean: expected a float tensor, got (2) i64"},

      {[](R x) {
         ops::reshape(x(f32, {2, 3}), {4});
       },
       "reshape: expected 4 elements of (4), got (2, 3) f32"},
      {[=](R x) {
         ops::permute(x(f32, {2, 3}), one);
       },
       "permute: got 1 axes for (2, 3) f32"},
      {[](R x) {
         ops::permute(x(f32, {2, 3}), std::vector<int64_t>{1, -1});
       },
       "permute: axis 1 occurs twice"},
      {[=](R x) {
         ops::permute(x(f32, {2, 3}), third);
       },
       "permute: axis 2 is out of range for (2, 3) f32"},
      {[](R x) {
         ops::transpose(x(f32, {2, 3}), 0, 2);
       },
       "transpose: axis 2 is out of range for (2, 3) f32"},
      {[](R x) {
         ops::expand(x(f32, {2, 3}), {3, 3});
       },
       "expand: cannot expand (2, 3) f32 to (3, 3)"},
      {[](R x) {
         ops::expand(x(f32, {2, 3}), {3});
       },
       "expand: cannot expand (2, 3) f32 to (3)"},
      {[](R x) {
         ops::slice(x(f32, {2, 3}), 1, 2, 4);
       },
       "slice: [2, 4) by 1 is out of range for axis 1 of (2, 3) f32"},
      {[](R x) {
         ops::slice(x(f32, {2, 3}), 1, 0, 2, 0);
       },
       "slice: [0, 2) by 0 is out of range for axis 1 of (2, 3) f32"},
      {[](R x) {
         ops::slice(x(f32, {2, 3}), 2, 0, 1);
       },
       "slice: axis 2 is out of range for (2, 3) f32"},
      {[](R x) {
         ops::pad(x(f32, {2, 3}), 1, -1, 2);
       },
       "pad: expected at least 0 elements at both ends of axis 1, got -1 and 2"},
      {[](R x) {
         ops::pad(x(f32, {2, 3}), 2, 1, 1);
       },
       "pad: axis 2 is out of range for (2, 3) f32"},
      {[](R x) {
         const Value parts[] = {x(f32, {2, 3}), x(f32, {3, 3})};
         ops::concat(parts, 1);
       },
       "concat: cannot concatenate (2, 3) f32 and (3, 3) f32 along axis 1"},
      {[](R x) {
         const Value parts[] = {x(f32, {2, 3}), x(f64, {2, 3})};
         ops::concat(parts, -3);
       },
       "concat: axis -3 is out of range for (2, 3) f32"},

      {[](R x) {
         ops::gather(x(f32, {2, 3}), 1, x(f32, {2, 1}));
       },
       "gather: expected i64 indices, got (2, 1) f32"},
      {[](R x) {
         ops::gather(x(f32, {2, 3}), 1, x(i64, {3, 1}));
       },
       "gather: index (3, 1) i64 does not match (2, 3) f32 at axis 1"},
      {[](R x) {
         ops::gather(x(f32, {2, 3}), 2, x(i64, {2, 1}));
       },
       "gather: axis 2 is out of range for (2, 3) f32"},
      {[](R x) {
         ops::scatter_add(x(f32, {2, 3}), 0, x(i64, {2}), x(f32, {2}));
       },
       "scatter_add: index (2) i64 does not match (2, 3) f32 at axis 0"},
      {[](R x) { ops::scatter_add(x(f32, {2}), 0, x(i64, {2}), x(f64, {2})); },
       "scatter_add: expected a source (2) f32, like index and tensor, got (2) f64"},
      {[](R x) { ops::one_hot(x(f32, {2}), 3); }, "one_hot: expected i64 indices, got (2) f32"},
      {[](R x) { ops::one_hot(x(i64, {2}), 0); }, "one_hot: expected at least one class, got 0"},
      {[](R x) { ops::embedding(x(f32, {2}), x(i64, {2})); }, "embedding: expected a table (V, D), got (2) f32"},
      {[](R x) {
         ops::embedding(x(f32, {2, 3}), x(f32, {2}));
       },
       "embedding: expected i64 indices, got (2) f32"},
      {[](R x) {
         x.record(Op::kEmbeddingGrad, {x(f32, {2}), x(f32, {2, 3})}, {4});
       },
       "embedding_grad: expected i64 indices, got (2) f32"},
      {[](R x) {
         x.record(Op::kEmbeddingGrad, {x(i64, {2}), x(f32, {3, 3})}, {4});
       },
       "embedding_grad: expected a gradient with one row per id of (2) i64, got (3, 3) f32"},

      {[](R x) {
         ops::matmul(x(f32, {64, 784}), x(f32, {10, 784}));
       },
       "matmul: expected equal inner sizes, got (64, 784) f32 × (10, 784) f32"},
      {[](R x) {
         ops::matmul(x(f32, {2, 3}), x(f32, {4, 3}), true, true);
       },
       "matmul: expected equal inner sizes, got (2, 3) f32ᵀ × (4, 3) f32ᵀ"},
      {[](R x) {
         ops::matmul(x(f32, {2, 3}), x(f64, {3, 2}));
       },
       "matmul: expected float operands of the same dtype, got (2, 3) f32 × (3, 2) f64"},
      {[](R x) {
         ops::matmul(x(i64, {2, 3}), x(i64, {3, 2}));
       },
       "matmul: expected float operands of the same dtype, got (2, 3) i64 × (3, 2) i64"},
      {[](R x) {
         ops::matmul(x(f32, {3}), x(f32, {3, 2}));
       },
       "matmul: expected operands of equal rank, at least 2, got (3) f32 × (3, 2) f32"},
      {[](R x) {
         ops::matmul(x(f32, {2, 2, 3}), x(f32, {3, 3, 2}));
       },
       "matmul: expected equal leading axes, got (2, 2, 3) f32 × (3, 3, 2) f32"},
      {[](R x) {
         ops::add_matmul(x(f32, {2}), x(f32, {2, 3}), x(f32, {3, 2}));
       },
       "matmul: expected an addend of type (2, 2) f32, got (2) f32"},
      {[](R x) {
         const DType bf16 = DType::kBf16;
         ops::add_matmul(x(bf16, {2, 2}), x(bf16, {2, 3}), x(bf16, {3, 2}));
       },
       "matmul: expected products of f32 or f64 to add to, got bf16"},

      {[](R x) {
         ops::softmax(x(i64, {2, 3}));
       },
       "softmax: expected a float tensor, got (2, 3) i64"},
      {[](R x) { ops::softmax(x(f32, {})); }, "softmax: expected at least one axis, got () f32"},
      {[](R x) {
         ops::log_softmax(x(f32, {2, 3}), 2);
       },
       "log_softmax: axis 2 is out of range for (2, 3) f32"},
      {[](R x) { x.record(Op::kSoftmax, {x(f32, {})}); }, "softmax: expected at least one axis, got a scalar"},
      {[](R x) { ops::cross_entropy(x(f32, {2}), x(i64, {2})); },
       "cross_entropy: expected logits (N, C) of floats, got (2) f32"},
      {[](R x) {
         ops::cross_entropy(x(f32, {2, 3}), x(i64, {3}));
       },
       "cross_entropy: expected labels (2) i64, got (3) i64"},
      {[](R x) {
         ops::cross_entropy(x(f32, {2, 3}), x(f32, {2}));
       },
       "cross_entropy: expected labels (2) i64, got (2) f32"},
      {[](R x) {
         const Value logits = x(f32, {2, 3}), labels = x(i64, {2});
         ops::cross_entropy(logits, labels, {.class_weights = x(f32, {2})});
       },
       "cross_entropy: expected class weights (3) f32, got (2) f32"},
      {[](R x) {
         x.record(Op::kCrossEntropyGrad, {x(f32, {2, 3}), x(i64, {2}), x(f32, {3})}, {0, 0});
       },
       "cross_entropy_grad: expected a gradient of type (2) f32, got (3) f32"},
      {[](R x) {
         ops::label_rank(x(i64, {2, 3}), x(i64, {2}));
       },
       "label_rank: expected floats (…, N) with N of at least 1, got (2, 3) i64"},
      {[](R x) {
         ops::label_rank(x(f32, {2, 0}), x(i64, {2}));
       },
       "label_rank: expected floats (…, N) with N of at least 1, got (2, 0) f32"},
      {[](R x) {
         ops::label_rank(x(f32, {2, 4, 3}), x(i64, {2}));
       },
       "label_rank: expected labels (2, 4) i64, got (2) i64"},
      {[](R x) {
         ops::layer_norm(x(i64, {2, 3}), x(f32, {3}), x(f32, {3}));
       },
       "layer_norm: expected a float tensor with at least one axis, got (2, 3) i64"},
      {[](R x) {
         ops::layer_norm(x(f32, {2, 3}), x(f32, {2}), x(f32, {3}));
       },
       "layer_norm: expected gamma (3) f32, got (2) f32"},
      {[](R x) {
         ops::layer_norm(x(f32, {2, 3}), x(f32, {3}), x(f64, {3}));
       },
       "layer_norm: expected beta (3) f32, got (3) f64"},
      {[](R x) {
         x.record(Op::kLayerNormGradX, {x(f32, {2, 3}), x(f32, {3}), x(f32, {3})}, {0});
       },
       "layer_norm_grad_x: expected a gradient of type (2, 3) f32, got (3) f32"},
      {[](R x) {
         x.record(Op::kLayerNormGradGamma, {x(f32, {2, 3}), x(f32, {3})}, {0});
       },
       "layer_norm_grad_gamma: expected a gradient of type (2, 3) f32, got (3) f32"},

      {[](R x) {
         ops::dropout_mask(x(i64, {3}), x(i64, {2}), {2, 3}, 0, 0.5);
       },
       "dropout_mask: expected a key (2) i64, got (3) i64"},
      {[](R x) {
         ops::dropout_mask(x(i64, {2}), x(f32, {2}), {2, 3}, 0, 0.5);
       },
       "dropout_mask: expected i64 indices, got (2) f32"},
      {[](R x) {
         ops::dropout_mask(x(i64, {2}), x(i64, {2}), {2, 3}, 0, 1);
       },
       "dropout_mask: expected p in [0, 1), got 1"},
      {[](R x) {
         ops::dropout_mask(x(i64, {2}), x(i64, {3}), {2, 3}, 0, 0.5);
       },
       "dropout_mask: expected one sample id per row of (2, 3), got (3) i64"},
      {[](R x) {
         ops::random_uniform(x(i64, {3}), {2, 3}, 0);
       },
       "random_uniform: expected a key (2) i64, got (3) i64"},
      {[](R x) {
         ops::random_normal(x(f32, {2}), {2, 3}, 0);
       },
       "random_normal: expected a key (2) i64, got (2) f32"},
      {[](R x) {
         ops::random_uniform(x(i64, {2}), {2, 3}, -1);
       },
       "random_uniform: expected a stream in [0, 2^32), got -1"},
      {[](R x) {
         ops::random_normal(x(i64, {2}), {2, 3}, int64_t{1} << 32);
       },
       "random_normal: expected a stream in [0, 2^32), got 4294967296"},
      {[](Recorder& x) { ops::all_reduce(x(boolean, {3}), Reduction::kSum, Subject::kGradients); },
       "all_reduce: expected a tensor of f32, f64, i32 or i64, got (3) bool"},
  };
}

std::vector<ErrorCase> all_cases() {
  std::vector<ErrorCase> cases = unary_cases();
  for (const auto& more : {binary_cases(), other_cases()}) cases.insert(cases.end(), more.begin(), more.end());
  return cases;
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kRun);
    return error.what();
  }
  return "no error";
}

TEST(OpErrors, NameTheRuleTheTypesAndTheLine) {
  for (const ErrorCase& c : all_cases()) {
    Recorder recorder;
    EXPECT_EQ(error_of([&] { c.record(recorder); }), "model.lua:2: " + c.message);
  }
}

TEST(OpErrors, EveryOpThatCanFailHasACase) {
  std::set<std::string> covered = {"input", "constant", "cast", "detach"};  // these accept anything
  for (const ErrorCase& c : all_cases()) covered.insert(c.message.substr(0, c.message.find(':')));
  for (int op = 0; op < kOpCount; ++op)
    EXPECT_EQ(covered.count(std::string(name_of(static_cast<Op>(op)))), 1u) << name_of(static_cast<Op>(op));
}

TEST(OpErrors, AProgramStaysUsableAfterAnError) {
  Recorder x;
  const Value a = x(f32, {2});
  const Program before = x.program;
  EXPECT_NE(error_of([&] { x.record(Op::kMatmul, {a, a}, {0, 0}); }), "no error");
  EXPECT_TRUE(x.program.same_structure(before));
  EXPECT_EQ(x.program.hash(), before.hash());
  ops::neg(a);
}

// ---- when a Program runs -------------------------------------------------------------------------------------------

// Runs the Program of `record` on indices that all equal `index`, with a plan of fast or reference kernels.
std::string run_error(const std::function<Value(Recorder&, Value)>& record, const Shape& shape, double index,
                      const KernelSource& kernels) {
  Recorder recorder;
  Inputs inputs;
  const Value indices = recorder(i64, shape);
  const Value result = record(recorder, indices);
  recorder.program.output("y", result.id);
  for (const Input& input : recorder.program.inputs()) inputs.emplace_back(recorder.program.type(input.value));
  inputs[0] = HostTensor(indices.type(), [index](int64_t) { return index; });
  WorkerPool pool(1);
  return error_of([&] { run_plan_once(recorder.program, inputs, {.kernels = kernels}, pool); });
}

TEST(OpErrors, IndicesOutOfRangeHaveTheLine) {
  struct RunCase {
    std::function<Value(Recorder&, Value)> record;
    Shape shape;
    double index;
    std::string message;
  };
  const RunCase cases[] = {
      {[](R x, Value at) {
         return ops::embedding(x(f32, {5, 3}), at);
       },
       {2},
       5,
       "embedding: index 5 at position 0 is out of range, size 5"},
      {[](R x, Value at) {
         return x.record(Op::kEmbeddingGrad, {at, x(f32, {2, 3})}, {5});
       },
       {2},
       -1,
       "embedding_grad: index -1 at position 0 is out of range, size 5"},
      {[](R x, Value at) {
         return ops::gather(x(f32, {2, 3}), 1, at);
       },
       {2, 1},
       3,
       "gather: index 3 at position 0 is out of range, size 3"},
      {[](R x, Value at) {
         return ops::scatter_add(x(f32, {2, 3}), 0, at, x(f32, {1, 3}));
       },
       {1, 3},
       2,
       "scatter_add: index 2 at position 0 is out of range, size 2"},
      {[](R, Value at) { return ops::one_hot(at, 4); },
       {2},
       4,
       "one_hot: index 4 at position 0 is out of range, size 4"},
      {[](R x, Value at) {
         return ops::cross_entropy(x(f32, {2, 3}), at);
       },
       {2},
       7,
       "cross_entropy: label 7 at row 0 is out of range, the model has 3 classes"},
      {[](R x, Value at) {
         return ops::cross_entropy(x(f32, {2, 3}), at);
       },
       {2},
       -1,
       "cross_entropy: label -1 at row 0 is out of range, the model has 3 classes"},
      {[](R x, Value at) {
         return x.record(Op::kCrossEntropyGrad, {x(f32, {2, 3}), at, x(f32, {2})}, {-100, 0});
       },
       {2},
       3,
       "cross_entropy: label 3 at row 0 is out of range, the model has 3 classes"},
  };
  for (const RunCase& c : cases) {
    EXPECT_EQ(run_error(c.record, c.shape, c.index, kFastKernels), "model.lua:2: " + c.message);
    EXPECT_EQ(run_error(c.record, c.shape, c.index, kReferenceKernels), "model.lua:2: " + c.message);
  }
}

}  // namespace
}  // namespace runner::backends::testing
