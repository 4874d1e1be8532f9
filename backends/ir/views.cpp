#include "backends/ir/views.h"

#include "schema/base/error.h"

namespace runner::backends {
namespace {

// All axes before the first sliced one must have size 1 in the result, and slices must have step 1.
bool is_one_run(const Program& program, ValueId slice) {
  const Shape& from = program.type(program.operands(slice)[0]).shape;
  const Shape& to = program.type(slice).shape;
  const std::span<const int64_t> slices = program.attrs(slice);
  bool leading = true;
  for (int axis = 0; axis < from.rank(); ++axis) {
    const bool whole = to[axis] == from[axis];
    if (!whole && (!leading || slices[static_cast<size_t>(axis) * 3 + 2] != 1)) return false;
    if (to[axis] != 1) leading = false;
  }
  return true;
}

}  // namespace

bool is_view(const Program& program, ValueId id) {
  const Op op = program.node(id).op;
  if (kind_of(op) != OpKind::kMovement) return false;
  switch (def_of(op).memory) {
    case MemoryRule::kView: return true;
    case MemoryRule::kSliceView: return is_one_run(program, id);
    case MemoryRule::kBuffer:
    case MemoryRule::kBroadcast: return false;
  }
  RUN_ASSERT(false);
}

int64_t view_start(const Program& program, ValueId id) {
  if (def_of(program.node(id).op).memory == MemoryRule::kView) return 0;
  const Shape& from = program.type(program.operands(id)[0]).shape;
  const auto strides = from.strides();
  int64_t start = 0;
  for (int axis = 0; axis < from.rank(); ++axis)
    start += program.attrs(id)[static_cast<size_t>(axis) * 3] * strides[static_cast<size_t>(axis)];
  return start;
}

bool is_free(const Program& program, ValueId id) {
  return is_broadcast(program.node(id).op) || is_view(program, id);
}

}  // namespace runner::backends
