// Views and broadcasts: nodes without a kernel of their own.
#pragma once

#include "backends/ir/op_def.h"
#include "backends/ir/program.h"

namespace runner::backends {

// Whether a node shares the buffer of its operand: a reshape, or a slice that is contiguous in the operand.
bool is_view(const Program& program, ValueId id);

// The element of its operand at which a view begins.
int64_t view_start(const Program& program, ValueId id);

// Whether element-wise readers look through the op: expand and constant.
inline bool is_broadcast(Op op) {
  const bool may_be = kind_of(op) == OpKind::kMovement || kind_of(op) == OpKind::kLeaf;
  return may_be && def_of(op).memory == MemoryRule::kBroadcast;
}

// Whether a node is a view or a broadcast.
bool is_free(const Program& program, ValueId id);

}  // namespace runner::backends
