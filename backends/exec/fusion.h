// Groups the nodes of a Program: each group becomes one kernel.
//
// Invariants: 1. every node that computes something is in exactly one group; 2. the nodes of an element-wise group have
// the same shape and compute type; 3. groups are in topological order.
#pragma once

#include <string>
#include <vector>

#include "backends/ir/program.h"

namespace runner::backends {

enum class GroupKind : uint8_t {
  kEltwise,  // one fused loop
  kKernel,   // one node, one kernel
};

struct Group {
  GroupKind kind;
  std::vector<ValueId> nodes;     // ascending
  std::vector<ValueId> operands;  // distinct values that it reads from memory
  std::vector<ValueId> results;   // nodes that other groups or outputs read
};

enum class Fusion : uint8_t {
  kNone,  // every node is a group of its own
  kFlat,  // only ops on whole flat buffers, as in optimizers and clipping: vectors with as many elements as a state
  kAll,
};

// Fuses element-wise nodes wherever that creates no cycle between groups: first with the groups of their operands. Then
// a node moves to the group that reads its result if that takes less memory. Expand and constant nodes that a kernel
// reads as a tensor become groups of their own (copies).
std::vector<Group> make_groups(const Program& program, Fusion fusion = Fusion::kAll);

std::string to_string(const Program& program, const std::vector<Group>& groups);

}  // namespace runner::backends
