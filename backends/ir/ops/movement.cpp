// Ops that move elements and compute nothing.
#include <algorithm>
#include <array>
#include <numeric>

#include "backends/ir/ops/builder.h"
#include "backends/ir/ops/definition.h"
#include "backends/tensor/rounding.h"

namespace runner::backends::op_defs {
namespace {

// ---- types ----

TensorType reshape_type(Query q) {
  check(q.operands[0].shape.elements() == q.requested.shape.elements(),
        "reshape: expected {1} elements of {2}, got {0}", q.operands[0], q.requested.shape.elements(),
        q.requested.shape);
  return {q.operands[0].dtype, q.requested.shape};
}

TensorType permute_type(Query q) {
  const Shape& shape = q.operands[0].shape;
  std::array<int64_t, Shape::kMaxRank> dims{};
  unsigned seen = 0;
  check(static_cast<int>(q.attrs.size()) == shape.rank(), "permute: got {} axes for {}", q.attrs.size(), q.operands[0]);
  for (size_t i = 0; i < q.attrs.size(); ++i) {
    const int axis = shape.axis(q.attrs[i], "permute");
    check(!(seen >> axis & 1u), "permute: axis {} occurs twice", axis);
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
  check(fits, "expand: cannot expand {} to {}", x, to);
  return {x.dtype, to};
}

TensorType slice_type(Query q) {
  Shape shape = q.operands[0].shape;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const auto at = static_cast<size_t>(axis) * 3;
    const int64_t start = q.attrs[at], stop = q.attrs[at + 1], step = q.attrs[at + 2];
    check(0 <= start && start <= stop && stop <= shape[axis] && step >= 1,
          "slice: [{}, {}) by {} is out of range for axis {} of {}", start, stop, step, axis, q.operands[0]);
    shape = shape.with(axis, ceil_div(stop - start, step));
  }
  return {q.operands[0].dtype, shape};
}

TensorType pad_type(Query q) {
  Shape shape = q.operands[0].shape;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const int64_t before = q.attrs[static_cast<size_t>(axis) * 2], after = q.attrs[static_cast<size_t>(axis) * 2 + 1];
    check(before >= 0 && after >= 0, "pad: expected at least 0 elements at both ends of axis {2}, got {0} and {1}",
          before, after, axis);
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
          "concat: cannot concatenate {1} and {0} along axis {2}", part, first, axis);
    size += part.shape[axis];
  }
  return {first.dtype, first.shape.with(axis, size)};
}

// ---- gradients ----

void permute_gradient(Value result, Value grad, Grads grads) {
  const std::span<const int64_t> axes = attrs(result);
  std::array<int64_t, Shape::kMaxRank> inverse{};
  for (size_t i = 0; i < axes.size(); ++i) inverse[static_cast<size_t>(axes[i])] = static_cast<int64_t>(i);
  grads[0] = ops::permute(grad, {inverse.data(), axes.size()});
}

void expand_gradient(Value result, Value grad, Grads grads) {
  const Shape from = operand(result, 0).shape(), to = result.shape();
  const int added = to.rank() - from.rank();
  std::vector<int64_t> axes;
  for (int axis = 0; axis < to.rank(); ++axis)
    if (axis < added || (from[axis - added] == 1 && to[axis] != 1)) axes.push_back(axis);
  grads[0] = axes.empty() ? grad : ops::reshape(ops::sum(grad, axes), from);
}

// A step of s is undone by padding each element to s elements; then the axis is sliced or padded to its length.
void slice_gradient(Value result, Value grad, Grads grads) {
  const Shape from = operand(result, 0).shape();
  const std::vector<int64_t> slices = copy_of_attrs(result);
  Value g = grad;
  for (int axis = 0; axis < from.rank(); ++axis) {
    const auto at = static_cast<size_t>(axis) * 3;
    const int64_t start = slices[at], step = slices[at + 2];
    if (step > 1) {
      const Shape shape = g.shape();
      std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
      dims.insert(dims.begin() + axis + 1, 1);
      g = ops::pad(ops::reshape(g, Shape(dims)), axis + 1, 0, step - 1);
      dims.erase(dims.begin() + axis + 1);
      dims[static_cast<size_t>(axis)] *= step;
      g = ops::reshape(g, Shape(dims));
    }
    const int64_t room = from[axis] - start;
    if (g.shape()[axis] > room) g = ops::slice(g, axis, 0, room);
    g = ops::pad(g, axis, start, room - g.shape()[axis]);
  }
  grads[0] = g;
}

void pad_gradient(Value result, Value grad, Grads grads) {
  const Shape from = operand(result, 0).shape();
  const std::vector<int64_t> amounts = copy_of_attrs(result);
  Value g = grad;
  for (int axis = 0; axis < from.rank(); ++axis) {
    const int64_t before = amounts[static_cast<size_t>(axis) * 2];
    g = ops::slice(g, axis, before, before + from[axis]);
  }
  grads[0] = g;
}

void concat_gradient(Value result, Value grad, Grads grads) {
  const int axis = result.shape().axis(attrs(result)[0], "concat");
  int64_t start = 0;
  for (size_t i = 0; i < grads.size(); ++i) {
    const int64_t size = operand(result, i).shape()[axis];
    grads[i] = ops::slice(grad, axis, start, start + size);
    start += size;
  }
}

// ---- folding ----

// Merges two reshapes, and drops one that changes nothing.
ValueId fold_reshape(const FoldQuery& query) {
  if (const ValueId known = fold_moved_constant(query); known != kNoValue) return known;
  Program& to = query.to;
  ValueId x = query.operands[0];
  if (to.node(x).op == Op::kReshape) x = to.operands(x)[0];
  if (to.type(x).shape == query.type().shape) return x;
  const ValueId operands[] = {x};
  return to.record(Op::kReshape, operands, {}, query.type());
}

ValueId fold_expand(const FoldQuery& query) {
  if (const ValueId known = fold_moved_constant(query); known != kNoValue) return known;
  Program& to = query.to;
  const ValueId x = query.operands[0];
  if (to.type(x).shape == query.type().shape) return x;
  if (to.node(x).op != Op::kExpand) return kNoValue;
  const ValueId operands[] = {to.operands(x)[0]};
  return to.record(Op::kExpand, operands, {}, query.type());
}

ValueId fold_permute(const FoldQuery& query) {
  if (const ValueId known = fold_moved_constant(query); known != kNoValue) return known;
  Program& to = query.to;
  const ValueId x = query.operands[0];
  if (to.node(x).op != Op::kPermute) return kNoValue;
  std::vector<int64_t> axes(query.from.attrs(query.id).begin(), query.from.attrs(query.id).end());
  for (int64_t& axis : axes) axis = to.attrs(x)[static_cast<size_t>(axis)];
  const ValueId operands[] = {to.operands(x)[0]};
  return std::is_sorted(axes.begin(), axes.end()) ? operands[0] : to.record(Op::kPermute, operands, axes);
}

struct MovementDef {
  Required<Attributes> attributes;
  Required<TypeRule> infer;
  Required<Gradient> gradient;
  Required<FoldRule> fold;
  Required<Traffic> traffic;
  Required<MemoryRule> memory;
  Required<InPlaceRule> in_place;
  XlaNames xla;
};
constexpr OpDef movement(const MovementDef& def) {
  return {.attributes = def.attributes,
          .infer = def.infer,
          .gradient = def.gradient,
          .fold = def.fold,
          .combines_by = std::nullopt,
          .product = kNoProduct,
          .matrix_operands = 0,
          .cost = {.flops = flops<0>, .xla = xla_count<kNoArithmetic>, .traffic = def.traffic},
          .batch = BatchRule::kGrows,
          .memory = def.memory,
          .in_place = def.in_place,
          .autocast = AutocastRule::kAsGiven,
          .numbers = kNumbersAreOperands,
          .xla = def.xla};
}

}  // namespace

// To the requested shape, of as many elements.
constexpr Attribute kReshapeAttributes[] = {
    {"shape", Type::kShape, kAnyInt, kAlways, kValue, "output_size=({})", ""},
};
constexpr OpDef kReshape = movement(MovementDef{
    .attributes = Attributes(kReshapeAttributes),
    .infer = reshape_type,
    .gradient = [](Value y, Value grad, Grads grads) { grads[0] = ops::reshape(grad, operand(y, 0).shape()); },
    .fold = fold_reshape,
    .traffic = kUntouched,
    .memory = MemoryRule::kView,
    .in_place = InPlaceRule::kNever,
    .xla = xla_names("aten::view", hlo_instruction("reshape")),
});

// The operand without a gradient. Gradients are recorded before the fold pass removes it.
constexpr OpDef kDetach = movement(MovementDef{
    .attributes = Attributes(),
    .infer = as_operand,
    .gradient = kNoGradient,
    .fold = [](const FoldQuery& query) { return query.operands[0]; },
    .traffic = kUntouched,
    .memory = MemoryRule::kBuffer,
    .in_place = InPlaceRule::kNever,
    .xla = xla_names("aten::detach", hlo_instruction("copy")),
});

// Operand 0, for nodes that are to be computed after operand 1 although equal ones are known before: no pass merges
// them.
constexpr OpDef kBarrier = movement(MovementDef{
    .attributes = Attributes(),
    .infer = as_operand,
    .gradient = [](Value, Value grad, Grads grads) { grads[0] = grad; },
    .fold = kNoFold,
    .traffic = kUntouched,
    .memory = MemoryRule::kView,
    .in_place = InPlaceRule::kNever,
    .xla = xla_names("xla::optimization_barrier", hlo_instruction("opt-barrier")),
});

// Attributes: for each axis of the result, the axis of the operand.
constexpr Attribute kPermuteAttributes[] = {
    {"axes", Type::kPermutation, kAnyInt, kAlways, kValue, "dims=({})", "dimensions={{{}}}"},
};
constexpr OpDef kPermute = movement(MovementDef{
    .attributes = Attributes(kPermuteAttributes),
    .infer = permute_type,
    .gradient = permute_gradient,
    .fold = fold_permute,
    .traffic = kEachOnce,
    .memory = MemoryRule::kBuffer,
    .in_place = InPlaceRule::kNever,
    .xla = xla_names("aten::permute", hlo_instruction("transpose")),
});

// NumPy's broadcasting to the requested shape.
constexpr Attribute kExpandAttributes[] = {
    {"shape", Type::kShape, kAnyInt, kAlways, kValue, "size=({})", ""},
};
constexpr OpDef kExpand = movement(MovementDef{
    .attributes = Attributes(kExpandAttributes),
    .infer = expand_type,
    .gradient = expand_gradient,
    .fold = fold_expand,
    .traffic = kEachOnce,
    .memory = MemoryRule::kBroadcast,
    .in_place = InPlaceRule::kSameElement,
    .xla = xla_names("aten::expand", hlo_form(HloForm::kBroadcast, "broadcast")),
});

constexpr Attribute kSliceAttributes[] = {
    {"slices", Type::kSlices, kSizes, kAlways, kValue, "slice={{{}}}", "slice={{{}}}"},
};
constexpr OpDef kSlice = movement(MovementDef{
    .attributes = Attributes(kSliceAttributes),
    .infer = slice_type,
    .gradient = slice_gradient,
    .fold = fold_moved_constant,
    .traffic = Traffic{.is_each_once = false, .result = 2, .operands = {}},
    .memory = MemoryRule::kSliceView,
    .in_place = InPlaceRule::kNever,
    .xla = xla_names("aten::slice", hlo_instruction("slice")),
});

// With zeros.
constexpr Attribute kPadAttributes[] = {
    {"margins", Type::kMargins, kSizes, kAlways, kValue, "pad=({})", "padding={}"},
};
constexpr OpDef kPad = movement(MovementDef{
    .attributes = Attributes(kPadAttributes),
    .infer = pad_type,
    .gradient = pad_gradient,
    .fold = kNoFold,
    .traffic = kEachOnce,
    .memory = MemoryRule::kBuffer,
    .in_place = InPlaceRule::kNever,
    .xla = {.aten = "aten::constant_pad_nd",
            .aten_of_matrices = "",
            .hlo = Hlo{.form = HloForm::kInstruction, .opcode = "pad", .details = "", .scalar = "0", .applies = ""}},
});

constexpr Attribute kConcatAttributes[] = {
    {"axis", Type::kAxis, kAnyInt, kAlways, kValue, "dim={}", "dimensions={{{}}}"},
};
constexpr OpDef kConcat = movement(MovementDef{
    .attributes = Attributes(kConcatAttributes),
    .infer = concat_type,
    .gradient = concat_gradient,
    .fold = kNoFold,
    .traffic = kEachOnce,
    .memory = MemoryRule::kBuffer,
    .in_place = InPlaceRule::kNever,
    .xla = xla_names("aten::cat", hlo_instruction("concatenate")),
});

}  // namespace runner::backends::op_defs

namespace runner::backends::ops {

Value reshape(Value x, const Shape& shape) {
  return x.shape() == shape ? x : record(Op::kReshape, {x}, {}, {x.dtype(), shape});
}

Value flatten(Value x) {
  return reshape(x, Shape{x.shape().elements()});
}

Value unsqueeze(Value x, int64_t axis) {
  const Shape shape = x.shape();
  std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
  check_input(axis >= 0 && axis <= shape.rank(), x, "unsqueeze: axis {} is out of range for {}", axis, x.type());
  dims.insert(dims.begin() + axis, 1);
  return reshape(x, Shape(dims));
}

Value detach(Value x) {
  return record(Op::kDetach, {x});
}

Value barrier(Value x, Value after) {
  return record(Op::kBarrier, {x, after});
}

Value permute(Value x, std::span<const int64_t> axes) {
  std::vector<int64_t> normal(axes.begin(), axes.end()), in_order(static_cast<size_t>(x.shape().rank()));
  for (int64_t& axis : normal) axis = normal_axis("permute", x, axis);
  std::iota(in_order.begin(), in_order.end(), 0);
  return normal == in_order ? x : record(Op::kPermute, {x}, normal);
}

Value transpose(Value x, int64_t a, int64_t b) {
  std::vector<int64_t> axes(static_cast<size_t>(x.shape().rank()));
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes[static_cast<size_t>(normal_axis("transpose", x, a))],
            axes[static_cast<size_t>(normal_axis("transpose", x, b))]);
  return permute(x, axes);
}

Value expand(Value x, const Shape& shape) {
  return x.shape() == shape ? x : record(Op::kExpand, {x}, {}, {x.dtype(), shape});
}

Value slice(Value x, int64_t axis, int64_t start, int64_t stop, int64_t step) {
  const Shape shape = x.shape();
  const int at = normal_axis("slice", x, axis);
  const int64_t size = shape[at];
  const auto from_end = [size](int64_t i) { return i < 0 ? i + size : i; };
  if (from_end(start) == 0 && from_end(stop) == size && step == 1) return x;
  std::vector<int64_t> slices;
  for (int i = 0; i < shape.rank(); ++i) {
    const bool here = i == at;
    slices.insert(slices.end(), {here ? from_end(start) : 0, here ? from_end(stop) : shape[i], here ? step : 1});
  }
  return record(Op::kSlice, {x}, slices);
}

Value pad(Value x, int64_t axis, int64_t before, int64_t after) {
  if (before == 0 && after == 0) return x;
  std::vector<int64_t> amounts(static_cast<size_t>(x.shape().rank()) * 2);
  const auto at = static_cast<size_t>(normal_axis("pad", x, axis));
  amounts[at * 2] = before;
  amounts[at * 2 + 1] = after;
  return record(Op::kPad, {x}, amounts);
}

Value concat(std::span<const Value> parts, int64_t axis) {
  RUN_CHECK(!parts.empty(), ErrorKind::kRun, "concat: expected at least one tensor");
  if (parts.size() == 1) return parts[0];
  std::vector<ValueId> ids;
  for (const Value& part : parts) ids.push_back(part.id);
  const int64_t attrs[] = {normal_axis("concat", parts[0], axis)};
  return {parts[0].program, parts[0].program->record(Op::kConcat, ids, attrs)};
}

Value stack(std::span<const Value> parts, int64_t axis) {
  std::vector<Value> rows;
  for (const Value& part : parts) {
    check_input(part.type() == parts[0].type(), part, "stack: expected tensors of equal type, got {} and {}",
                parts[0].type(), part.type());
    rows.push_back(unsqueeze(part, axis));
  }
  return concat(rows, axis);
}

namespace {

// Column − row of each element of (…, M, N), to be compared with the number of a diagonal.
Value diagonal_of(std::string_view op, Value x) {
  const Shape shape = x.shape();
  check_input(shape.rank() >= 2, x, "{}: expected at least two axes, got {}", op, x.type());
  const int64_t rows = shape[shape.rank() - 2], columns = shape.back();
  return sub(arange(*x.program, columns), reshape(arange(*x.program, rows), Shape{rows, 1}));
}

}  // namespace

Value tril(Value x, int64_t diagonal) {
  const Value at = diagonal_of("tril", x);
  return where(le(at, full_like(at, static_cast<double>(diagonal))), x, full_like(x, 0.0));
}

Value triu(Value x, int64_t diagonal) {
  const Value at = diagonal_of("triu", x);
  return where(ge(at, full_like(at, static_cast<double>(diagonal))), x, full_like(x, 0.0));
}

}  // namespace runner::backends::ops
