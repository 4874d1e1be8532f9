// Which nodes compute nothing.
#pragma once

#include "backends/ir/op_def.h"
#include "backends/ir/program.h"

namespace runner::backends {

// Whether a node shares its operand's buffer: a reshape, or a slice whose elements are one run of the operand's.
bool is_view(const Program& program, ValueId id);

// The element of its operand at which a view begins.
int64_t view_start(const Program& program, ValueId id);

// Ops that readers look through where they can: expand and constant.
inline bool is_broadcast(Op op) {
  const bool may_be = kind_of(op) == OpKind::kMovement || kind_of(op) == OpKind::kLeaf;
  return may_be && def_of(op).memory == MemoryRule::kBroadcast;
}

// Whether a node costs nothing in its place: views and broadcasts.
bool is_free(const Program& program, ValueId id);

}  // namespace runner::backends
