#include "backends/ir/views.h"

namespace runner::backends {
namespace {

bool is_contiguous_slice(const Program& program, ValueId id) {
  if (program.node(id).op != Op::kSlice) return false;
  const Shape& from = program.type(program.operands(id)[0]).shape;
  const Shape& to = program.type(id).shape;
  const std::span<const int64_t> cuts = program.attrs(id);
  // All axes before the first cut one must have size 1 in the result, and the cut must have step 1.
  bool leading = true;
  for (int axis = 0; axis < from.rank(); ++axis) {
    const bool whole = to[axis] == from[axis];
    if (!whole && (!leading || cuts[static_cast<size_t>(axis) * 3 + 2] != 1)) return false;
    if (to[axis] != 1) leading = false;
  }
  return true;
}

}  // namespace

bool is_view(const Program& program, ValueId id) {
  return program.node(id).op == Op::kReshape || is_contiguous_slice(program, id);
}

int64_t view_start(const Program& program, ValueId id) {
  if (program.node(id).op == Op::kReshape) return 0;
  const Shape& from = program.type(program.operands(id)[0]).shape;
  const auto strides = from.strides();
  int64_t start = 0;
  for (int axis = 0; axis < from.rank(); ++axis)
    start += program.attrs(id)[static_cast<size_t>(axis) * 3] * strides[static_cast<size_t>(axis)];
  return start;
}

bool is_free(const Program& program, ValueId id) {
  const Op op = program.node(id).op;
  return op == Op::kExpand || op == Op::kConstant || is_view(program, id);
}

}  // namespace runner::backends
