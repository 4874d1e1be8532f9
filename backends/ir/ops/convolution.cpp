// Convolution and its gradients, which are linear in both operands and each other's gradients.
#include <algorithm>
#include <array>

#include "backends/ir/ops/builder.h"
#include "backends/ir/ops/definition.h"
#include "backends/ir/windows.h"

namespace runner::backends {
namespace op_defs {
namespace {

constexpr Attribute kConvAttributes[] = {
    {"groups", Type::kInt, Bounds{1, INT32_MAX}, kAlways, kNameAndValue, "groups={}", "feature_group_count={}"},
    {"wide", Type::kInt, kFlag, kAlways, kNameAndValue, "", ""},  // bf16 operands, f32 result
    {"windows", Type::kWindows, kAnyInt, kAlways, kValue, "window={{{}}}", "window={{{}}}"},
};

// ---- types ----

// The tensors of a convolution y = conv(x, w): two are operands of an op, the third is its result.
struct ConvTypes {
  TensorType x, w, y;
};

// Operands are floats of the same dtype, with one or two spatial axes.
void check_operands(Query q) {
  const TensorType &a = q.operands[0], &b = q.operands[1];
  const int rank = a.shape.rank();
  check(is_float(a.dtype) && a.dtype == b.dtype && rank == b.shape.rank() && rank > 2 && rank <= 2 + kMostWindowAxes,
        "{}: expected tensors (B, C, L) or (B, C, H, W) of one float dtype, got {} and {}", name_of(q.op), a, b);
  check(!ConvAttributes::of(q.attrs).wide || a.dtype == DType::kBf16,
        "{}: expected bf16 operands of a wide product, got {}", name_of(q.op), a);
}

// Throws unless y is the result of the convolution of x with w.
void check_fit(Query q, const ConvTypes& t) {
  const auto [groups, wide, numbers] = ConvAttributes::of(q.attrs);
  const Shape &x = t.x.shape, &w = t.w.shape, &y = t.y.shape;
  check(w[1] * groups == x[1] && w[0] % groups == 0,
        "{}: expected weights (O, {} / {}, …) with O a multiple of {}, got {}", name_of(q.op), x[1], groups, groups,
        t.w);
  check(y[0] == x[0] && y[1] == w[0], "{}: expected results ({}, {}, …) for {} and weights {}, got {}", name_of(q.op),
        x[0], w[0], t.x, t.w, t.y);
  const std::vector<Window> windows = windows_of(numbers);
  for (int i = 0; i < std::ssize(windows); ++i) {
    const Window& window = windows[static_cast<size_t>(i)];
    const int64_t n = x[2 + i], count = window.count(n);
    check(window.size == w[2 + i], "{}: expected windows of the size of the weights {}, got {}", name_of(q.op), t.w,
          windows_text(numbers));
    check(count > 0, kDoesNotFit, name_of(q.op), window.extent(), n, t.x, window.before, window.after);
    check(count == y[2 + i], "{}: expected {} windows along axis {} of {}, got {}", name_of(q.op), count, 2 + i, t.x,
          t.y);
  }
}

DType result_dtype(Query q) {
  return ConvAttributes::of(q.attrs).wide ? DType::kF32 : q.operands[0].dtype;
}

TensorType conv_type(Query q) {
  check_operands(q);
  const TensorType &x = q.operands[0], &w = q.operands[1];
  const std::vector<Window> windows = windows_of(ConvAttributes::of(q.attrs).windows);
  Shape y = x.shape.with(1, w.shape[0]);
  for (int i = 0; i < std::ssize(windows); ++i)
    y = y.with(2 + i, windows[static_cast<size_t>(i)].count(x.shape[2 + i]));
  check_fit(q, {x, w, {x.dtype, y}});
  return {result_dtype(q), y};
}

// (grad of y, w) -> grad of x
TensorType conv_grad_x_type(Query q) {
  check_operands(q);
  const TensorType& grad = q.operands[0];
  check(q.requested.shape.rank() == grad.shape.rank(), "{}: expected a result of the rank of {}, got {}", name_of(q.op),
        grad, q.requested.shape);
  check_fit(q, {{grad.dtype, q.requested.shape}, q.operands[1], grad});
  return {result_dtype(q), q.requested.shape};
}

// (x, grad of y) -> grad of w
TensorType conv_grad_w_type(Query q) {
  check_operands(q);
  const TensorType& x = q.operands[0];
  check(q.requested.shape.rank() == x.shape.rank(), "{}: expected a result of the rank of {}, got {}", name_of(q.op), x,
        q.requested.shape);
  check_fit(q, {x, {x.dtype, q.requested.shape}, q.operands[1]});
  return {result_dtype(q), q.requested.shape};
}

ConvTypes types_of(Query q, const TensorType& result) {
  const TensorType &a = q.operands[0], &b = q.operands[1];
  if (q.op == Op::kConv) return {a, b, result};
  return q.op == Op::kConvGradX ? ConvTypes{result, b, a} : ConvTypes{a, result, b};
}

// ---- gradients ----

// The gradient of a wide product is f32; its operands are not.
Value linear(Op op, Value a, Value b, Value like, std::span<const int64_t> attrs) {
  std::vector<int64_t> narrow(attrs.begin(), attrs.end());
  narrow[ConvAttributes::kWide] = 0;
  return ops::record(op, {ops::cast(a, like.dtype()), ops::cast(b, like.dtype())}, narrow, like.type());
}

void conv_gradient(Value result, Value grad, Grads grads) {
  const Value x = operand(result, 0), w = operand(result, 1);
  const std::vector<int64_t> attributes = copy_of_attrs(result);
  grads[0] = linear(Op::kConvGradX, grad, w, x, attributes);
  grads[1] = linear(Op::kConvGradW, x, grad, w, attributes);
}

void conv_grad_x_gradient(Value result, Value grad, Grads grads) {
  const Value y = operand(result, 0), w = operand(result, 1);
  const std::vector<int64_t> attributes = copy_of_attrs(result);
  grads[0] = linear(Op::kConv, grad, w, y, attributes);
  grads[1] = linear(Op::kConvGradW, grad, y, w, attributes);
}

void conv_grad_w_gradient(Value result, Value grad, Grads grads) {
  const Value x = operand(result, 0), y = operand(result, 1);
  const std::vector<int64_t> attributes = copy_of_attrs(result);
  grads[0] = linear(Op::kConvGradX, y, grad, x, attributes);
  grads[1] = linear(Op::kConv, x, grad, y, attributes);
}

// ---- costs ----

// Products with the elements of all windows, padding included, for the result of one group: the columns of the matrix
// (B · windows, C / groups · elements of a window).
struct ConvSizes {
  int64_t groups, rows, columns, outputs;
};
ConvSizes sizes_of(Query q, const ConvTypes& t) {
  const int64_t groups = ConvAttributes::of(q.attrs).groups;
  ConvSizes sizes{.groups = groups, .rows = t.y.shape[0], .columns = t.w.shape[1], .outputs = t.w.shape[0] / groups};
  for (int axis = 2; axis < t.y.shape.rank(); ++axis) {
    sizes.rows *= t.y.shape[axis];
    sizes.columns *= t.w.shape[axis];
  }
  return sizes;
}

ProductSize conv_product(Query q, const TensorType& result) {
  const ConvSizes s = sizes_of(q, types_of(q, result));
  if (q.op == Op::kConv) return {.batch = s.groups, .m = s.rows, .k = s.columns, .n = s.outputs};
  if (q.op == Op::kConvGradX) return {.batch = s.groups, .m = s.rows, .k = s.outputs, .n = s.columns};
  return {.batch = s.groups, .m = s.outputs, .k = s.rows, .n = s.columns};
}

int64_t conv_flops(Query q, const TensorType& result) {
  const ConvSizes s = sizes_of(q, types_of(q, result));
  return 2 * s.groups * s.rows * s.columns * s.outputs;
}

// HloCostAnalysis does not count products with padding.
XlaCount conv_xla(Query q, const TensorType& result) {
  const ConvTypes t = types_of(q, result);
  const std::vector<Window> windows = windows_of(ConvAttributes::of(q.attrs).windows);
  int64_t products = t.x.shape[0] * t.w.shape[0] * t.w.shape[1];
  for (int i = 0; i < std::ssize(windows); ++i)
    products *= windows[static_cast<size_t>(i)].pairs_inside(t.x.shape[2 + i]);
  return {.flops = 2 * products};
}

struct ConvDef {
  Required<TypeRule> infer;
  Required<Gradient> gradient;
  Required<BatchRule> batch;
  Required<std::string_view> aten;
  Required<std::string_view> axes;  // for XLA
};
constexpr OpDef conv_op(const ConvDef& def) {
  return {
      .attributes = Attributes(kConvAttributes),
      .infer = def.infer,
      .gradient = def.gradient,
      .fold = kNoFold,
      .combines_by = std::nullopt,
      .product = conv_product,
      .matrix_operands = 2,
      .cost = {.flops = conv_flops, .xla = conv_xla, .traffic = kEachOnce},
      .batch = def.batch,
      .memory = MemoryRule::kBuffer,
      .in_place = InPlaceRule::kNever,
      .autocast = AutocastRule::kLowerPrecision,
      .numbers = kNumbersAreOperands,
      .xla = xla_names(
          def.aten,
          {.form = HloForm::kConvolution, .opcode = "convolution", .details = def.axes, .scalar = "", .applies = ""})};
}

}  // namespace

// (x (B, C, S…), w (O, C / groups, K…)) -> (B, O, windows…)
constexpr OpDef kConv = conv_op(ConvDef{
    .infer = conv_type,
    .gradient = conv_gradient,
    .batch = BatchRule::kGrows,
    .aten = "aten::convolution_overrideable",
    .axes = "bf_oi->bf",
});

// (grad of the result, w) -> grad of x, of the requested shape.
constexpr OpDef kConvGradX = conv_op(ConvDef{
    .infer = conv_grad_x_type,
    .gradient = conv_grad_x_gradient,
    .batch = BatchRule::kGrows,
    .aten = "aten::convolution_backward_input",
    .axes = "bf_io->bf",
});

// (x, grad of the result) -> grad of w, of the requested shape.
constexpr OpDef kConvGradW = conv_op(ConvDef{
    .infer = conv_grad_w_type,
    .gradient = conv_grad_w_gradient,
    .batch = BatchRule::kSumsSamples,
    .aten = "aten::convolution_backward_weight",
    .axes = "fb_io->bf",
});

}  // namespace op_defs

namespace ops {
namespace {

std::vector<int64_t> conv_attrs(std::string_view op, Value x, Value w, std::span<const Window> windows,
                                int64_t groups) {
  check_input(x.shape().rank() == 2 + std::ssize(windows) && w.shape().rank() == x.shape().rank(), x,
              "{}: expected an input and weights with {} spatial axes, got {} and {}", op, windows.size(), x.type(),
              w.type());
  check_input(groups > 0, x, "{}: expected groups of at least 1, got {}", op, groups);
  std::vector<int64_t> attrs{groups, 0};
  append_to(attrs, windows);
  for (size_t i = 0; i < windows.size(); ++i)
    attrs[ConvAttributes::kFirstWindow + i * Window::kNumbers] = w.shape()[static_cast<int>(2 + i)];
  return attrs;
}

}  // namespace

Value conv(Value x, Value w, std::span<const Window> windows, int64_t groups) {
  return record(Op::kConv, {x, w}, conv_attrs("conv", x, w, windows, groups));
}

Value conv_transpose(Value x, Value w, std::span<const Window> windows, std::span<const int64_t> sizes,
                     int64_t groups) {
  const std::vector<int64_t> attrs = conv_attrs("conv_transpose", x, w, windows, groups);
  check_input(w.shape()[0] == x.shape()[1] && x.shape()[1] % groups == 0, x,
              "conv_transpose: expected weights ({}, O / {}, …) with {} a multiple of {}, got {}", x.shape()[1], groups,
              x.shape()[1], groups, w.type());
  Shape shape = x.shape().with(1, w.shape()[1] * groups);
  for (size_t i = 0; i < sizes.size(); ++i) shape = shape.with(static_cast<int>(2 + i), sizes[i]);
  return record(Op::kConvGradX, {x, w}, attrs, {x.dtype(), shape});
}

}  // namespace ops
}  // namespace runner::backends
