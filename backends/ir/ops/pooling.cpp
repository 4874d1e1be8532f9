// Maxima and sums over windows of the spatial axes.
#include "backends/ir/ops/builder.h"
#include "backends/ir/ops/definition.h"
#include "backends/ir/windows.h"

namespace runner::backends {
namespace op_defs {
namespace {

constexpr Attribute kWindowAttributes[] = {
    {"windows", Type::kWindows, kAnyInt, kAlways, kValue, "window={{{}}}", "window={{{}}}"},
};

// ---- types ----

// The shape of one number for each window of x.
Shape window_shape(Query q, const TensorType& x) {
  const int rank = x.shape.rank();
  check(is_float(x.dtype) && rank > 2 && rank <= 2 + kMostWindowAxes,
        "{}: expected floats (B, C, L) or (B, C, H, W), got {}", name_of(q.op), x);
  const std::vector<Window> windows = windows_of(q.attrs);
  Shape shape = x.shape;
  for (int i = 0; i < std::ssize(windows); ++i) {
    const Window& window = windows[static_cast<size_t>(i)];
    const int64_t n = x.shape[2 + i], count = window.count(n);
    check(count > 0, kDoesNotFit, name_of(q.op), window.extent(), n, x, window.before, window.after);
    shape = shape.with(2 + i, count);
  }
  return shape;
}

// Each window of a maximum has an element that is not in the padding.
TensorType max_pool_type(Query q) {
  const TensorType& x = q.operands[0];
  const Shape shape = window_shape(q, x);
  const std::vector<Window> windows = windows_of(q.attrs);
  for (int i = 0; i < std::ssize(windows); ++i) {
    const Window& window = windows[static_cast<size_t>(i)];
    const int64_t n = x.shape[2 + i], count = shape[2 + i];
    int64_t whole = 0;  // windows up to here have such an element
    for (int64_t k = window.size; k-- > 0;)
      if (const IndexRange<int64_t> inside = window.inside(k, n, count); inside.begin <= whole)
        whole = std::max(whole, inside.end);
    check(whole == count, "{}: expected no window in the padding alone, got padding {} and {} of windows of {} on {}",
          name_of(q.op), window.before, window.after, window.size, x);
  }
  return {x.dtype, shape};
}

TensorType max_pool_grad_type(Query q) {
  const TensorType result{q.operands[0].dtype, window_shape(q, q.operands[0])};
  check_gradient(q.operands[1], result, name_of(q.op));
  return q.operands[0];
}

TensorType window_sum_type(Query q) {
  return {q.operands[0].dtype, window_shape(q, q.operands[0])};
}

TensorType window_sum_grad_type(Query q) {
  const TensorType& grad = q.operands[0];
  const TensorType x{grad.dtype, q.requested.shape};
  check(x.shape.rank() == grad.shape.rank(), "{}: expected a result of the rank of {}, got {}", name_of(q.op), grad,
        x.shape);
  check_gradient(grad, {grad.dtype, window_shape(q, x)}, name_of(q.op));
  return x;
}

// ---- costs ----

// Pairs of a window and an element that is not in the padding. `x`: what the windows move over.
int64_t pairs_inside(Query q, const Shape& x) {
  int64_t pairs = x[0] * x[1];
  const std::vector<Window> windows = windows_of(q.attrs);
  for (int i = 0; i < std::ssize(windows); ++i) pairs *= windows[static_cast<size_t>(i)].pairs_inside(x[2 + i]);
  return pairs;
}

const Shape& moved_over(Query q, const TensorType& result) {
  return q.op == Op::kWindowSumGrad ? result.shape : q.operands[0].shape;
}

int64_t window_flops(Query q, const TensorType& result) {
  return pairs_inside(q, moved_over(q, result));
}

// HloCostAnalysis: each window of n elements takes n − 1 operations, padding included; a scatter of gradients, one
// comparison for each of these and one addition for each window.
XlaCount window_xla(Query q, const TensorType& result) {
  const std::vector<Window> windows = windows_of(q.attrs);
  int64_t elements = 1;
  for (const Window& window : windows) elements *= window.size;
  switch (q.op) {
    case Op::kMaxPoolGrad: return {.flops = q.operands[1].shape.elements() * elements};
    case Op::kWindowSumGrad: return {.flops = result.shape.elements() * std::max<int64_t>(elements - 1, 1)};
    default: return {.flops = result.shape.elements() * (elements - 1)};
  }
}

struct WindowDef {
  Required<TypeRule> infer;
  Required<Gradient> gradient;
  XlaNames xla;
};
constexpr OpDef window_op(const WindowDef& def) {
  return {.attributes = Attributes(kWindowAttributes),
          .infer = def.infer,
          .gradient = def.gradient,
          .fold = kNoFold,
          .combines_by = std::nullopt,
          .product = kNoProduct,
          .matrix_operands = 0,
          .cost = {.flops = window_flops, .xla = window_xla, .traffic = kEachOnce},
          .batch = BatchRule::kGrows,
          .memory = MemoryRule::kBuffer,
          .in_place = InPlaceRule::kNever,
          .autocast = AutocastRule::kAsGiven,
          .numbers = kNumbersAreOperands,
          .xla = def.xla};
}

constexpr Hlo hlo_window(std::string_view applies, std::string_view begins_with) {
  return {.form = HloForm::kInstruction,
          .opcode = "reduce-window",
          .details = "",
          .scalar = begins_with,
          .applies = applies};
}

}  // namespace

// x (B, C, S…) -> (B, C, windows…): the largest element of each window; NaN counts as largest.
constexpr OpDef kMaxPool = window_op(WindowDef{
    .infer = max_pool_type,
    .gradient =
        [](Value result, Value grad, Grads grads) {
          grads[0] = ops::record(Op::kMaxPoolGrad, {operand(result, 0), grad}, copy_of_attrs(result));
        },
    .xla = xla_names("aten::max_pool2d_with_indices", hlo_window("maximum", "-inf")),
});

// (x, grad of the result) -> grad of x: each gradient goes to the first of the largest elements, and to the last NaN.
constexpr OpDef kMaxPoolGrad = window_op(WindowDef{
    .infer = max_pool_grad_type,
    .gradient = kNotDifferentiable,
    .xla = xla_names("aten::max_pool2d_with_indices_backward", hlo_instruction("select-and-scatter")),
});

// x (B, C, S…) -> (B, C, windows…): the sum of each window; padding counts as 0.
constexpr OpDef kWindowSum = window_op(WindowDef{
    .infer = window_sum_type,
    .gradient =
        [](Value result, Value grad, Grads grads) {
          grads[0] = ops::record(Op::kWindowSumGrad, {grad}, copy_of_attrs(result), operand(result, 0).type());
        },
    .xla = xla_names("aten::sum_pool", hlo_window("add", "0")),
});

// grad of the result -> grad of x, of the requested shape.
constexpr OpDef kWindowSumGrad = window_op(WindowDef{
    .infer = window_sum_grad_type,
    .gradient = [](Value result, Value grad,
                   Grads grads) { grads[0] = ops::record(Op::kWindowSum, {grad}, copy_of_attrs(result)); },
    .xla = xla_names("aten::sum_pool_backward", kCustomCall),
});

}  // namespace op_defs

namespace ops {
namespace {

std::vector<Window> windows_on(std::string_view op, Value x, std::span<const Pooling> pools) {
  check_input(x.shape().rank() == 2 + std::ssize(pools), x, "{}: expected a tensor with {} spatial axes, got {}", op,
              pools.size(), x.type());
  std::vector<Window> windows;
  for (size_t i = 0; i < pools.size(); ++i) {
    const Pooling& pool = pools[i];
    const std::string fault = pool.fault();
    check_input(fault.empty(), x, "{}: {}", op, fault);
    const int64_t n = x.shape()[static_cast<int>(2 + i)];
    const Window window = pool.on(n);
    check_input(window.count(n) > 0, x, kDoesNotFit, op, window.extent(), n, x.type(), window.before, window.after);
    windows.push_back(window);
  }
  return windows;
}

Value record_windows(Op op, Value x, std::span<const Window> windows) {
  std::vector<int64_t> attrs;
  append_to(attrs, windows);
  return record(op, {x}, attrs);
}

// (windows) of the dtype of x: how many elements each window has, of the axis with or without its padding. What
// ceil_mode adds does not count.
Value elements_of_windows(Value x, const Pooling& pool, int64_t n, bool with_padding) {
  const int64_t first = with_padding ? -pool.padding : 0, end = with_padding ? n + pool.padding : n;
  const Window window = pool.on(n);
  const Value begin = sub(mul(arange(*x.program, window.count(n)), static_cast<double>(pool.stride)),
                          static_cast<double>(pool.padding));
  const Value last = add(begin, static_cast<double>(pool.size));
  const auto bound = [&](Value v, int64_t number) { return full_like(v, static_cast<double>(number)); };
  return cast(sub(minimum(last, bound(last, end)), maximum(begin, bound(begin, first))), x.dtype());
}

}  // namespace

Value max_pool(Value x, std::span<const Pooling> pools) {
  return record_windows(Op::kMaxPool, x, windows_on("max_pool", x, pools));
}

Value avg_pool(Value x, std::span<const Pooling> pools, bool count_padding) {
  const std::vector<Window> windows = windows_on("avg_pool", x, pools);
  Value mean = record_windows(Op::kWindowSum, summable(x), windows);
  double elements = 1;  // of a window, along the axes where all have as many
  for (size_t i = 0; i < pools.size(); ++i) {
    const Pooling& pool = pools[i];
    check_input(pool.dilation == 1, x, "avg_pool: expected no dilation, got {}", pool.dilation);
    const bool is_even = windows[i].after == pool.padding && (count_padding || pool.padding == 0);
    if (is_even) {
      elements *= static_cast<double>(pool.size);
      continue;
    }
    const Value counts = elements_of_windows(mean, pool, x.shape()[static_cast<int>(2 + i)], count_padding);
    const bool is_last = i + 1 == pools.size();
    mean = div(mean, is_last ? counts : reshape(counts, Shape{counts.shape()[0], 1}));
  }
  return cast(elements == 1 ? mean : div(mean, elements), x.dtype());
}

}  // namespace ops
}  // namespace runner::backends
