// The op table: one row per op, with its type rule and cost; the derivative rules stand in derivatives.cpp.

#include <algorithm>
#include <limits>

#include "backends/ir/derivatives.h"
#include "backends/ir/op.h"
#include "backends/ir/program.h"
#include "backends/ir/type_text.h"
#include "backends/tensor/rounding.h"
#include "schema/error.h"

namespace runner::backends {
namespace {

using Query = const TypeQuery&;

template <class... Args>
void check(bool holds, fmt::format_string<Args...> format, Args&&... args) {
  if (!holds) throw Error(ErrorKind::kRun, fmt::format(format, std::forward<Args>(args)...));
}

TensorType requested(Query q) {
  return q.requested;
}

// ---- element-wise --------------------------------------------------------------------------------------------------

template <Op op>
TensorType float_unary(Query q) {
  check(is_float(q.operands[0].dtype), "{}: wants a float tensor, got {}", name_of(op), q.operands[0]);
  return q.operands[0];
}

template <Op op>
TensorType number_unary(Query q) {
  check(q.operands[0].dtype != DType::kBool, "{}: wants a tensor of numbers, got {}", name_of(op), q.operands[0]);
  return q.operands[0];
}

template <Op op>
TensorType bool_unary(Query q) {
  check(q.operands[0].dtype == DType::kBool, "{}: wants a bool tensor, got {}", name_of(op), q.operands[0]);
  return q.operands[0];
}

TensorType is_finite_type(Query q) {
  check(is_float(q.operands[0].dtype), "is_finite: wants a float tensor, got {}", q.operands[0]);
  return {DType::kBool, q.operands[0].shape};
}

TensorType cast_type(Query q) {
  return {q.requested.dtype, q.operands[0].shape};
}

template <Op op>
TensorType binary_type(Query q) {
  check(q.operands[0] == q.operands[1], "{}: wants operands of one dtype, got {} and {}: cast one of them", name_of(op),
        q.operands[0], q.operands[1]);
  return q.operands[0];
}

template <Op op>
TensorType number_binary(Query q) {
  check(q.operands[0].dtype != DType::kBool, "{}: wants tensors of numbers, got {}", name_of(op), q.operands[0]);
  return binary_type<op>(q);
}

template <Op op>
TensorType float_binary(Query q) {
  check(is_float(q.operands[0].dtype), "{}: wants float tensors, got {}", name_of(op), q.operands[0]);
  return binary_type<op>(q);
}

template <Op op>
TensorType comparison(Query q) {
  return {DType::kBool, binary_type<op>(q).shape};
}

template <Op op>
TensorType logical(Query q) {
  check(q.operands[0].dtype == DType::kBool, "{}: wants bool tensors, got {}", name_of(op), q.operands[0]);
  return binary_type<op>(q);
}

TensorType where_type(Query q) {
  const TensorType &condition = q.operands[0], &x = q.operands[1], &y = q.operands[2];
  check(condition.dtype == DType::kBool, "where: the condition must be bool, got {}", condition);
  check(x == y && condition.shape == x.shape, "where: wants operands of one dtype, got {} and {}: cast one of them", x,
        y);
  return x;
}

// ---- reductions and layout -----------------------------------------------------------------------------------------

Shape reduced(const Shape& shape, std::span<const int64_t> axes) {
  Shape result = shape;
  for (size_t i = axes.size(); i-- > 0;) result = result.without(static_cast<int>(axes[i]));
  return result;
}

template <Op op>
TensorType reduce_type(Query q) {
  const TensorType& x = q.operands[0];
  check(x.dtype != DType::kBool, "{}: wants a tensor of numbers, got {}", name_of(op), x);
  const bool has_identity = op == Op::kSum;
  for (const int64_t axis : q.attrs)
    check(has_identity || x.shape[static_cast<int>(axis)] > 0, "{}: axis {} of {} is empty", name_of(op), axis, x);
  return {op == Op::kArgMax ? DType::kI64 : x.dtype, reduced(x.shape, q.attrs)};
}

TensorType detach_type(Query q) {
  return q.operands[0];
}

TensorType reshape_type(Query q) {
  check(q.operands[0].shape.elements() == q.requested.shape.elements(),
        "reshape: {} does not have the {} elements of {}", q.operands[0], q.requested.shape.elements(),
        q.requested.shape);
  return {q.operands[0].dtype, q.requested.shape};
}

TensorType permute_type(Query q) {
  const Shape& shape = q.operands[0].shape;
  std::array<int64_t, Shape::kMaxRank> dims{};
  unsigned seen = 0;
  check(static_cast<int>(q.attrs.size()) == shape.rank(), "permute: {} axes given for {}", q.attrs.size(),
        q.operands[0]);
  for (size_t i = 0; i < q.attrs.size(); ++i) {
    const int axis = shape.axis(q.attrs[i], "permute");
    check(!(seen >> axis & 1u), "permute: axis {} is given twice", axis);
    seen |= 1u << axis;
    dims[i] = shape[axis];
  }
  return {q.operands[0].dtype, Shape(std::span<const int64_t>(dims.data(), q.attrs.size()))};
}

TensorType expand_type(Query q) {
  const TensorType& x = q.operands[0];
  const Shape& to = q.requested.shape;
  bool fits = x.shape.rank() <= to.rank();
  for (int i = 1; fits && i <= x.shape.rank(); ++i) {
    const int64_t size = x.shape[x.shape.rank() - i];
    fits = size == 1 || size == to[to.rank() - i];
  }
  check(fits, "expand: {} does not expand to {}", x, to);
  return {x.dtype, to};
}

TensorType slice_type(Query q) {
  Shape shape = q.operands[0].shape;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const auto at = static_cast<size_t>(axis) * 3;
    const int64_t start = q.attrs[at], stop = q.attrs[at + 1], step = q.attrs[at + 2];
    check(0 <= start && start <= stop && stop <= shape[axis] && step >= 1,
          "slice: [{}, {}) by {} does not lie in axis {} of {}", start, stop, step, axis, q.operands[0]);
    shape = shape.with(axis, ceil_div(stop - start, step));
  }
  return {q.operands[0].dtype, shape};
}

TensorType pad_type(Query q) {
  Shape shape = q.operands[0].shape;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const int64_t before = q.attrs[static_cast<size_t>(axis) * 2], after = q.attrs[static_cast<size_t>(axis) * 2 + 1];
    check(before >= 0 && after >= 0, "pad: {} and {} at axis {} must not be negative", before, after, axis);
    shape = shape.with(axis, shape[axis] + before + after);
  }
  return {q.operands[0].dtype, shape};
}

TensorType concat_type(Query q) {
  const TensorType& first = q.operands[0];
  const int axis = first.shape.axis(q.attrs[0], "concat");
  int64_t size = 0;
  for (const TensorType& part : q.operands) {
    check(part.dtype == first.dtype && part.shape.rank() == first.shape.rank() &&
              part.shape.with(axis, 1) == first.shape.with(axis, 1),
          "concat: {} does not join {} at axis {}", part, first, axis);
    size += part.shape[axis];
  }
  return {first.dtype, first.shape.with(axis, size)};
}

// ---- indexing ------------------------------------------------------------------------------------------------------

void check_index(const TensorType& index, const char* op) {
  check(index.dtype == DType::kI64, "{}: indices must be i64, got {}", op, index);
}

void check_gather_shapes(const TensorType& x, const TensorType& index, int64_t attr_axis, const char* op) {
  check_index(index, op);
  const int axis = x.shape.axis(attr_axis, op);
  bool fits = x.shape.rank() == index.shape.rank();
  for (int i = 0; fits && i < x.shape.rank(); ++i) fits = i == axis || index.shape[i] <= x.shape[i];
  check(fits, "{}: index {} does not fit {} at axis {}", op, index, x, axis);
}

TensorType gather_type(Query q) {
  check_gather_shapes(q.operands[0], q.operands[1], q.attrs[0], "gather");
  return {q.operands[0].dtype, q.operands[1].shape};
}

TensorType scatter_add_type(Query q) {
  check_gather_shapes(q.operands[0], q.operands[1], q.attrs[0], "scatter_add");
  const TensorType wanted{q.operands[0].dtype, q.operands[1].shape};
  check(q.operands[2] == wanted, "scatter_add: source {} must be {}, as index and tensor", q.operands[2], wanted);
  return q.operands[0];
}

TensorType append_axis(DType dtype, const Shape& shape, int64_t size) {
  std::array<int64_t, Shape::kMaxRank + 1> dims{};
  std::copy(shape.dims().begin(), shape.dims().end(), dims.begin());
  dims[static_cast<size_t>(shape.rank())] = size;
  return {dtype, Shape(std::span<const int64_t>(dims.data(), static_cast<size_t>(shape.rank()) + 1))};
}

TensorType one_hot_type(Query q) {
  check_index(q.operands[0], "one_hot");
  check(q.attrs[0] >= 1, "one_hot: wants at least one class, got {}", q.attrs[0]);
  return append_axis(DType::kF32, q.operands[0].shape, q.attrs[0]);
}

TensorType embedding_type(Query q) {
  check(q.operands[0].shape.rank() == 2, "embedding: the table must be (V, D), got {}", q.operands[0]);
  check_index(q.operands[1], "embedding");
  return append_axis(q.operands[0].dtype, q.operands[1].shape, q.operands[0].shape[1]);
}

TensorType embedding_grad_type(Query q) {
  const TensorType &ids = q.operands[0], &grad = q.operands[1];
  check_index(ids, "embedding_grad");
  check(grad.shape.rank() > 0 && grad.shape.without(grad.shape.rank() - 1) == ids.shape,
        "embedding_grad: gradient {} does not have a row for each of ids {}", grad, ids);
  return {grad.dtype, Shape{q.attrs[0], grad.shape.back()}};
}

// ---- products and row ops ------------------------------------------------------------------------------------------

struct MatmulDims {
  int64_t m, k_a, k_b, n;
};

MatmulDims matmul_dims(Query q) {
  const Shape& a = q.operands[0].shape;
  const Shape& b = q.operands[1].shape;
  const bool ta = q.attrs[0] != 0, tb = q.attrs[1] != 0;
  return {.m = a[a.rank() - (ta ? 1 : 2)],
          .k_a = a[a.rank() - (ta ? 2 : 1)],
          .k_b = b[b.rank() - (tb ? 1 : 2)],
          .n = b[b.rank() - (tb ? 2 : 1)]};
}

TensorType matmul_type(Query q) {
  const TensorType& a = q.operands[0];
  const TensorType& b = q.operands[1];
  const auto want = [&](bool holds, const char* what) {
    check(holds, "matmul: {}: {}{} × {}{}", what, a, q.attrs[0] ? "ᵀ" : "", b, q.attrs[1] ? "ᵀ" : "");
  };
  want(is_float(a.dtype) && a.dtype == b.dtype, "wants two float tensors of one dtype");
  const int rank = a.shape.rank();
  want(rank >= 2 && rank == b.shape.rank(), "wants two tensors of one rank, at least 2");
  const MatmulDims d = matmul_dims(q);
  want(d.k_a == d.k_b, "the inner sizes differ");
  for (int i = 0; i < rank - 2; ++i) want(a.shape[i] == b.shape[i], "the leading axes differ");
  const bool wide = q.attrs.size() > 2 && q.attrs[2] != 0;
  want(!wide || a.dtype == DType::kBf16, "wide products are of bf16");
  const TensorType product{wide ? DType::kF32 : a.dtype, a.shape.with(rank - 2, d.m).with(rank - 1, d.n)};
  if (q.operands.size() > 2) {
    check(q.operands[2] == product, "matmul: what is added must be {}, got {}", product, q.operands[2]);
    check(size_of(product.dtype) >= 4, "matmul: adds to products of f32 and f64, not of {}", name_of(product.dtype));
  }
  return product;
}

template <Op op>
TensorType row_unary(Query q) {
  check(q.operands[0].shape.rank() >= 1, "{}: wants at least one axis, got a scalar", name_of(op));
  return float_unary<op>(q);
}

void check_gradient(const TensorType& grad, const TensorType& result, const char* op) {
  check(grad == result, "{}: the gradient must be {}, got {}", op, result, grad);
}

void check_cross_entropy(Query q, size_t weights_at, const char* op) {
  const TensorType &logits = q.operands[0], &labels = q.operands[1];
  check(is_float(logits.dtype) && logits.shape.rank() == 2, "{}: logits must be (N, C) floats, got {}", op, logits);
  check(labels.dtype == DType::kI64 && labels.shape == Shape{logits.shape[0]},
        "{}: labels must be ({}) i64 class numbers, got {}", op, logits.shape[0], labels);
  if (q.operands.size() <= weights_at) return;
  const TensorType wanted{logits.dtype, Shape{logits.shape[1]}};
  check(q.operands[weights_at] == wanted, "{}: class weights must be {}, got {}", op, wanted, q.operands[weights_at]);
}

TensorType cross_entropy_type(Query q) {
  check_cross_entropy(q, 2, "cross_entropy");
  return {q.operands[0].dtype, q.operands[1].shape};
}

TensorType cross_entropy_grad_type(Query q) {
  check_cross_entropy(q, 3, "cross_entropy_grad");
  check_gradient(q.operands[2], {q.operands[0].dtype, q.operands[1].shape}, "cross_entropy_grad");
  return q.operands[0];
}

const TensorType& layer_norm_operand(Query q, const char* op) {
  const TensorType& x = q.operands[0];
  check(is_float(x.dtype) && x.shape.rank() >= 1, "{}: wants a float tensor with at least one axis, got {}", op, x);
  return x;
}

void check_row(const TensorType& row, const TensorType& x, const char* op, const char* what) {
  const TensorType wanted{x.dtype, Shape{x.shape.back()}};
  check(row == wanted, "{}: {} must be {}, got {}", op, what, wanted, row);
}

TensorType layer_norm_type(Query q) {
  const TensorType& x = layer_norm_operand(q, "layer_norm");
  check_row(q.operands[1], x, "layer_norm", "gamma");
  check_row(q.operands[2], x, "layer_norm", "beta");
  return x;
}

TensorType layer_norm_grad_x_type(Query q) {
  const TensorType& x = layer_norm_operand(q, "layer_norm_grad_x");
  check_row(q.operands[1], x, "layer_norm_grad_x", "gamma");
  check_gradient(q.operands[2], x, "layer_norm_grad_x");
  return x;
}

TensorType layer_norm_grad_gamma_type(Query q) {
  const TensorType& x = layer_norm_operand(q, "layer_norm_grad_gamma");
  check_gradient(q.operands[1], x, "layer_norm_grad_gamma");
  return {x.dtype, Shape{x.shape.back()}};
}

void check_random_key(const TensorType& key, std::string_view op) {
  check(key == TensorType{DType::kI64, Shape{2}}, "{}: the key must be (2) i64, got {}", op, key);
}

template <Op op>
TensorType random_type(Query q) {
  check_random_key(q.operands[0], name_of(op));
  check(q.attrs[0] >= 0 && q.attrs[0] <= std::numeric_limits<uint32_t>::max(),
        "{}: the stream must lie in [0, 2^32), got {}", name_of(op), q.attrs[0]);
  return {DType::kF32, q.requested.shape};
}

TensorType dropout_mask_type(Query q) {
  check_random_key(q.operands[0], "dropout_mask");
  check_index(q.operands[1], "dropout_mask");
  const double p = unpack_f64(q.attrs[1]);
  check(p >= 0 && p < 1, "dropout_mask: p must lie in [0, 1), got {}", p);
  check(q.requested.shape.rank() >= 1 && q.operands[1].shape == Shape{q.requested.shape[0]},
        "dropout_mask: a sample id is wanted for each row of {}, got {}", q.requested.shape, q.operands[1]);
  return {DType::kF32, q.requested.shape};
}

TensorType all_reduce_type(Query q) {
  check(is_reduced(q.operands[0].dtype), "all_reduce: wants a tensor of f32, f64, i32 or i64, got {}", q.operands[0]);
  return q.operands[0];
}

// ---- costs ---------------------------------------------------------------------------------------------------------

int64_t no_flops(Query, const TensorType&) {
  return 0;
}
int64_t per_result(Query, const TensorType& result) {
  return result.shape.elements();
}
int64_t per_operand(Query q, const TensorType&) {
  return q.operands[0].shape.elements();
}
int64_t second_operand(Query q, const TensorType&) {
  return q.operands[1].shape.elements();
}
int64_t third_operand(Query q, const TensorType&) {
  return q.operands[2].shape.elements();
}
int64_t matmul_flops(Query q, const TensorType& result) {
  const int64_t added = q.operands.size() > 2 ? 1 : 0;
  return result.shape.elements() * (2 * matmul_dims(q).k_a + added);
}
// Maximum, subtraction, exponential, sum, and a last pass.
int64_t row_flops(Query q, const TensorType&) {
  return 5 * q.operands[0].shape.elements();
}
int64_t layer_norm_flops(Query q, const TensorType&) {
  return 8 * q.operands[0].shape.elements();
}

// ---- the table -----------------------------------------------------------------------------------------------------

namespace d = derivatives;
constexpr auto kLeaf = OpClass::kLeaf;
constexpr auto kElem = OpClass::kElementwise;
constexpr auto kRed = OpClass::kReduce;
constexpr auto kLay = OpClass::kLayout;
constexpr auto kIdx = OpClass::kIndex;
constexpr auto kRowOp = OpClass::kRow;

// clang-format off
constexpr OpRow kTable[] = {
    {Op::kInput, "input", kLeaf, 0, 0, requested, nullptr, no_flops},
    {Op::kConstant, "constant", kLeaf, 0, 0, requested, nullptr, no_flops},
    {Op::kNeg, "neg", kElem, 1, 1, number_unary<Op::kNeg>, d::neg, per_result},
    {Op::kAbs, "abs", kElem, 1, 1, number_unary<Op::kAbs>, d::abs, per_result},
    {Op::kSign, "sign", kElem, 1, 1, number_unary<Op::kSign>, nullptr, per_result},
    {Op::kExp, "exp", kElem, 1, 1, float_unary<Op::kExp>, d::exp, per_result},
    {Op::kLog, "log", kElem, 1, 1, float_unary<Op::kLog>, d::log, per_result},
    {Op::kLog1p, "log1p", kElem, 1, 1, float_unary<Op::kLog1p>, d::log1p, per_result},
    {Op::kSqrt, "sqrt", kElem, 1, 1, float_unary<Op::kSqrt>, d::sqrt, per_result},
    {Op::kRsqrt, "rsqrt", kElem, 1, 1, float_unary<Op::kRsqrt>, d::rsqrt, per_result},
    {Op::kTanh, "tanh", kElem, 1, 1, float_unary<Op::kTanh>, d::tanh, per_result},
    {Op::kSigmoid, "sigmoid", kElem, 1, 1, float_unary<Op::kSigmoid>, d::sigmoid, per_result},
    {Op::kErf, "erf", kElem, 1, 1, float_unary<Op::kErf>, d::erf, per_result},
    {Op::kRelu, "relu", kElem, 1, 1, float_unary<Op::kRelu>, d::relu, per_result},
    {Op::kGelu, "gelu", kElem, 1, 1, float_unary<Op::kGelu>, d::gelu, per_result},
    {Op::kGeluTanh, "gelu_tanh", kElem, 1, 1, float_unary<Op::kGeluTanh>, d::gelu_tanh, per_result},
    {Op::kSilu, "silu", kElem, 1, 1, float_unary<Op::kSilu>, d::silu, per_result},
    {Op::kIsFinite, "is_finite", kElem, 1, 1, is_finite_type, nullptr, per_result},
    {Op::kNot, "not", kElem, 1, 1, bool_unary<Op::kNot>, nullptr, per_result},
    {Op::kCast, "cast", kElem, 1, 1, cast_type, d::cast, no_flops},
    {Op::kAdd, "add", kElem, 2, 2, number_binary<Op::kAdd>, d::add, per_result},
    {Op::kSub, "sub", kElem, 2, 2, number_binary<Op::kSub>, d::sub, per_result},
    {Op::kMul, "mul", kElem, 2, 2, number_binary<Op::kMul>, d::mul, per_result},
    {Op::kDiv, "div", kElem, 2, 2, float_binary<Op::kDiv>, d::div, per_result},
    {Op::kPow, "pow", kElem, 2, 2, float_binary<Op::kPow>, d::pow, per_result},
    {Op::kMin, "min", kElem, 2, 2, number_binary<Op::kMin>, d::min, per_result},
    {Op::kMax, "max", kElem, 2, 2, number_binary<Op::kMax>, d::max, per_result},
    {Op::kEq, "eq", kElem, 2, 2, comparison<Op::kEq>, nullptr, per_result},
    {Op::kNe, "ne", kElem, 2, 2, comparison<Op::kNe>, nullptr, per_result},
    {Op::kLt, "lt", kElem, 2, 2, comparison<Op::kLt>, nullptr, per_result},
    {Op::kLe, "le", kElem, 2, 2, comparison<Op::kLe>, nullptr, per_result},
    {Op::kGt, "gt", kElem, 2, 2, comparison<Op::kGt>, nullptr, per_result},
    {Op::kGe, "ge", kElem, 2, 2, comparison<Op::kGe>, nullptr, per_result},
    {Op::kAnd, "and", kElem, 2, 2, logical<Op::kAnd>, nullptr, per_result},
    {Op::kOr, "or", kElem, 2, 2, logical<Op::kOr>, nullptr, per_result},
    {Op::kWhere, "where", kElem, 3, 3, where_type, d::where, per_result},
    {Op::kSum, "sum", kRed, 1, 1, reduce_type<Op::kSum>, d::sum, per_operand},
    {Op::kReduceMax, "reduce_max", kRed, 1, 1, reduce_type<Op::kReduceMax>, d::reduce_extremum, per_operand},
    {Op::kReduceMin, "reduce_min", kRed, 1, 1, reduce_type<Op::kReduceMin>, d::reduce_extremum, per_operand},
    {Op::kArgMax, "argmax", kRed, 1, 1, reduce_type<Op::kArgMax>, nullptr, per_operand},
    {Op::kReshape, "reshape", kLay, 1, 1, reshape_type, d::reshape, no_flops},
    {Op::kDetach, "detach", kLay, 1, 1, detach_type, nullptr, no_flops},
    {Op::kPermute, "permute", kLay, 1, 1, permute_type, d::permute, no_flops},
    {Op::kExpand, "expand", kLay, 1, 1, expand_type, d::expand, no_flops},
    {Op::kSlice, "slice", kLay, 1, 1, slice_type, d::slice, no_flops},
    {Op::kPad, "pad", kLay, 1, 1, pad_type, d::pad, no_flops},
    {Op::kConcat, "concat", kLay, 1, -1, concat_type, d::concat, no_flops},
    {Op::kGather, "gather", kIdx, 2, 2, gather_type, d::gather, no_flops},
    {Op::kScatterAdd, "scatter_add", kIdx, 3, 3, scatter_add_type, d::scatter_add, third_operand},
    {Op::kOneHot, "one_hot", kIdx, 1, 1, one_hot_type, nullptr, no_flops},
    {Op::kEmbedding, "embedding", kIdx, 2, 2, embedding_type, d::embedding, no_flops},
    {Op::kEmbeddingGrad, "embedding_grad", kIdx, 2, 2, embedding_grad_type, nullptr, second_operand},
    {Op::kMatmul, "matmul", OpClass::kMatmul, 2, 3, matmul_type, d::matmul, matmul_flops},
    {Op::kSoftmax, "softmax", kRowOp, 1, 1, row_unary<Op::kSoftmax>, d::softmax, row_flops},
    {Op::kLogSoftmax, "log_softmax", kRowOp, 1, 1, row_unary<Op::kLogSoftmax>, d::log_softmax, row_flops},
    {Op::kCrossEntropy, "cross_entropy", kRowOp, 2, 3, cross_entropy_type, d::cross_entropy, row_flops},
    {Op::kCrossEntropyGrad, "cross_entropy_grad", kRowOp, 3, 4, cross_entropy_grad_type, nullptr, row_flops},
    {Op::kLayerNorm, "layer_norm", kRowOp, 3, 3, layer_norm_type, d::layer_norm, layer_norm_flops},
    {Op::kLayerNormGradX, "layer_norm_grad_x", kRowOp, 3, 3, layer_norm_grad_x_type, nullptr, layer_norm_flops},
    {Op::kLayerNormGradGamma, "layer_norm_grad_gamma", kRowOp, 2, 2, layer_norm_grad_gamma_type, nullptr, layer_norm_flops},
    {Op::kDropoutMask, "dropout_mask", OpClass::kRandom, 2, 2, dropout_mask_type, nullptr, per_result},
    {Op::kRandomUniform, "random_uniform", OpClass::kRandom, 1, 1, random_type<Op::kRandomUniform>, nullptr, per_result},
    {Op::kRandomNormal, "random_normal", OpClass::kRandom, 1, 1, random_type<Op::kRandomNormal>, nullptr, per_result},
    {Op::kAllReduce, "all_reduce", OpClass::kCollective, 1, 1, all_reduce_type, d::all_reduce, per_result},
};
// clang-format on

constexpr bool rows_stand_in_order() {
  for (int i = 0; i < kOpCount; ++i)
    if (kTable[i].op != static_cast<Op>(i)) return false;
  return true;
}
static_assert(std::size(kTable) == kOpCount && rows_stand_in_order());

}  // namespace

const OpRow& row_of(Op op) {
  return kTable[static_cast<int>(op)];
}

}  // namespace runner::backends
