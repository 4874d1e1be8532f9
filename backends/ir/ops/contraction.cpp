// Sums of products: what matrix units compute.
#include "backends/ir/ops/builder.h"
#include "backends/ir/ops/definition.h"

namespace runner::backends::op_defs {
namespace {

// (A, B[, C]): (…, M, K) × (…, K, N) with equal leading axes; C, of f32 or f64, is added to the product.
constexpr Attribute kMatmulAttributes[] = {
    {"transpose_a", Type::kInt, kFlag, kAlways, kValue, "", ""},
    {"transpose_b", Type::kInt, kFlag, kAlways, kValue, "", ""},
    {"wide", Type::kInt, kFlag, kOptional, kValue, "", ""},  // bf16 operands, f32 result
};

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
    check(holds, "matmul: expected {}, got {}{} × {}{}", what, a, q.attrs[0] ? "ᵀ" : "", b, q.attrs[1] ? "ᵀ" : "");
  };
  want(is_float(a.dtype) && a.dtype == b.dtype, "float operands of the same dtype");
  const int rank = a.shape.rank();
  want(rank >= 2 && rank == b.shape.rank(), "operands of equal rank, at least 2");
  const MatmulDims d = matmul_dims(q);
  want(d.k_a == d.k_b, "equal inner sizes");
  for (int i = 0; i < rank - 2; ++i) want(a.shape[i] == b.shape[i], "equal leading axes");
  const bool wide = q.attrs.size() > 2 && q.attrs[2] != 0;
  want(!wide || a.dtype == DType::kBf16, "bf16 operands of a wide product");
  const TensorType product{wide ? DType::kF32 : a.dtype, a.shape.with(rank - 2, d.m).with(rank - 1, d.n)};
  if (q.operands.size() > 2) {
    check(q.operands[2] == product, "matmul: expected an addend of type {}, got {}", product, q.operands[2]);
    check(size_of(product.dtype) >= 4, "matmul: expected products of f32 or f64 to add to, got {}",
          name_of(product.dtype));
  }
  return product;
}

ProductSize matmul_product(Query q, const TensorType& result) {
  const MatmulDims d = matmul_dims(q);
  const int64_t each = d.m * d.n;
  return {.batch = each == 0 ? 0 : result.shape.elements() / each, .m = d.m, .k = d.k_a, .n = d.n};
}

// A' B' [+ C] with A' = A or Aᵀ, B' = B or Bᵀ: dA' = G B'ᵀ, dB' = A'ᵀ G, dC = G.
void matmul_gradient(Value result, Value grad, Grads grads) {
  const Value a = operand(result, 0), b = operand(result, 1);
  const bool ta = attrs(result)[0] != 0, tb = attrs(result)[1] != 0;
  if (grads.size() > 2) grads[2] = grad;
  grad = ops::cast(grad, a.dtype());  // of a wide product
  grads[0] = ta ? ops::matmul(b, grad, tb, true) : ops::matmul(grad, b, false, !tb);
  grads[1] = tb ? ops::matmul(grad, a, true, ta) : ops::matmul(a, grad, !ta, false);
}

}  // namespace

constexpr OpDef kMatmul = {
    .attributes = Attributes(kMatmulAttributes),
    .infer = matmul_type,
    .gradient = matmul_gradient,
    .fold = kNoFold,
    .combines_by = std::nullopt,
    .product = matmul_product,
    .matrix_operands = 2,
    .cost = {.flops =
                 [](Query q, const TensorType& result) {
                   const int64_t added = q.operands.size() > 2 ? 1 : 0;
                   return result.shape.elements() * (2 * matmul_dims(q).k_a + added);
                 },
             .xla =
                 [](Query q, const TensorType& result) {
                   return XlaCount{.flops = 2 * result.shape.elements() * matmul_dims(q).k_a};
                 },
             .traffic = kEachOnce},
    .batch = BatchRule::kUnlessContracted,
    .memory = MemoryRule::kBuffer,
    .in_place = InPlaceRule::kAddend,
    .autocast = AutocastRule::kLowerPrecision,
    .numbers = kNumbersAreOperands,
    .xla = {.aten = "aten::matmul", .aten_of_matrices = "aten::mm", .hlo = hlo_form(HloForm::kDot, "dot")},
};

}  // namespace runner::backends::op_defs

namespace runner::backends::ops {
namespace {

// Product of the sizes of all axes but the last.
int64_t rows_of(const Shape& shape) {
  int64_t rows = 1;
  for (int axis = 0; axis + 1 < shape.rank(); ++axis) rows *= shape[axis];
  return rows;
}

}  // namespace

Value matmul(Value a, Value b, bool transpose_a, bool transpose_b) {
  const int64_t attrs[] = {transpose_a, transpose_b};
  if (a.shape().rank() <= 2 || b.shape().rank() != 2 || transpose_a) return record(Op::kMatmul, {a, b}, attrs);
  const Shape shape = a.shape();
  const Value rows = reshape(a, Shape{rows_of(shape), shape.back()});
  const Value product = record(Op::kMatmul, {rows, b}, attrs);
  return reshape(product, shape.with(shape.rank() - 1, product.shape()[1]));
}

Value add_matmul(Value c, Value a, Value b, bool transpose_a, bool transpose_b) {
  const int64_t attrs[] = {transpose_a, transpose_b};
  return record(Op::kMatmul, {a, b, c}, attrs);
}

}  // namespace runner::backends::ops
