// The operations of the engine, and the one table that describes them.
//
// An op is a row, not a class: name, class, arity, type rule, derivative, cost.  Adding one takes a row here
// (op_table.cpp), a reference kernel (kernels/reference.cpp) and a test row (tests/backends/op_cases.cpp); a test holds
// the three together.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "backends/tensor/shape.h"

namespace runner::backends {

enum class Op : uint8_t {
  // leaves
  kInput,     // value from outside; attrs: InputKind, index
  kConstant,  // every element has one value; attrs: value (f64)
  // element-wise, one operand
  kNeg,
  kAbs,
  kSign,
  kExp,
  kLog,
  kLog1p,
  kSqrt,
  kRsqrt,
  kTanh,
  kSigmoid,
  kErf,
  kRelu,
  kGelu,      // x · Φ(x), Φ the normal distribution function (erf form)
  kGeluTanh,  // 0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³)))
  kSilu,
  kIsFinite,  // bool
  kNot,       // bool -> bool
  kCast,      // to the node's dtype; floats to integers truncate
  // element-wise, two operands of one shape and dtype
  kAdd,
  kSub,
  kMul,
  kDiv,
  kPow,
  kMin,  // NaN if either is NaN
  kMax,
  kEq,  // comparisons give bool
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kAnd,
  kOr,
  // element-wise, three operands
  kWhere,  // (bool, x, y)
  // reductions; attrs: the axes, ascending; the reduced axes are dropped
  kSum,
  kReduceMax,
  kReduceMin,
  kArgMax,  // one axis; i64; the first of equals; NaN counts as largest
  // layout; expand, reshape and contiguous slices cost nothing
  kReshape,
  kDetach,   // the operand, without a derivative
  kPermute,  // attrs: for each output axis, the input axis
  kExpand,   // attrs: none; numpy broadcasting to the node's shape
  kSlice,    // attrs: start, stop, step for each axis
  kPad,      // zeros; attrs: before, after for each axis
  kConcat,   // attrs: axis
  // indexing; indices are i64 and checked: out of range is an error of the run
  kGather,         // (x, index) attrs: axis; as torch.gather
  kScatterAdd,     // (x, index, src) attrs: axis; as torch.scatter_add
  kOneHot,         // (index) attrs: classes; f32
  kEmbedding,      // (table (V, D), ids (…)) -> (…, D)
  kEmbeddingGrad,  // (ids (…), grad (…, D)) attrs: V -> (V, D)
  // products
  // (A, B[, C]) attrs: transpose_a, transpose_b[, 1: bf16 to f32]; (…, M, K) × (…, K, N), equal leading axes; f32 or
  // f64 C is added to the product.
  kMatmul,
  // over the last axis
  kSoftmax,
  kLogSoftmax,
  kCrossEntropy,  // (logits (N, C), labels (N) i64 [, class_weights (C)]) attrs: ignore_index, label_smoothing -> (N)
  kCrossEntropyGrad,    // (logits, labels, grad (N) [, class_weights]) same attrs -> (N, C)
  kLayerNorm,           // (x (…, D), gamma (D), beta (D)) attrs: eps
  kLayerNormGradX,      // (x, gamma, grad) attrs: eps
  kLayerNormGradGamma,  // (x, grad) attrs: eps -> (D)
  // random
  kDropoutMask,  // (key (2) i64 = {seed, epoch}, sample_ids (B) i64) attrs: layer, p -> (B, …) of 0 or 1/(1−p), f32
  kRandomUniform,  // (key (2) i64 = {seed, draw}) attrs: stream -> the node's shape of [0, 1), f32
  kRandomNormal,   // (key (2) i64 = {seed, draw}) attrs: stream -> the node's shape of N(0, 1), f32
  // between replicas; they wait for each other, so these are never left out, merged or reordered
  kAllReduce,  // attrs: Reduction, Subject; the fold over all replicas
};
inline constexpr int kOpCount = static_cast<int>(Op::kAllReduce) + 1;

enum class OpClass : uint8_t { kLeaf, kElementwise, kReduce, kLayout, kIndex, kMatmul, kRow, kRandom, kCollective };

class Program;
struct Value;

// What a type rule sees: the operand types and the attributes, and for ops that cannot infer them (cast, reshape,
// expand, random tensors) the type the caller asked for.
struct TypeQuery {
  std::span<const TensorType> operands;
  std::span<const int64_t> attrs;
  TensorType requested;
};

struct OpRow {
  Op op;
  std::string_view name;
  OpClass cls;
  int min_operands, max_operands;  // max −1: any number
  // Result type.  Throws Error(kRun) that starts with the op's name and gives the operand types.
  TensorType (*infer)(const TypeQuery& query);
  // Appends the gradients of the operands, given that of the result; null: not differentiable (gradient zero).
  // `grads` has one slot per operand; a rule leaves a slot unset (id < 0) where there is no gradient.
  void (*vjp)(Value result, Value grad, std::span<Value> grads);
  // Floating-point operations of one execution.
  int64_t (*flops)(const TypeQuery& query, const TensorType& result);
};

const OpRow& row_of(Op op);
inline std::string_view name_of(Op op) {
  return row_of(op).name;
}
inline bool is_elementwise(Op op) {
  return row_of(op).cls == OpClass::kElementwise;
}
inline bool is_collective(Op op) {
  return row_of(op).cls == OpClass::kCollective;
}

}  // namespace runner::backends
