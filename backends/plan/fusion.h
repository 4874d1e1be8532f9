// Cutting a Program into groups: what will be one kernel each.
//
// Invariants: 1. every node that computes something is in exactly one group; 2. the nodes of an element-wise group have
// one shape and one compute type; 3. groups stand in an order in which each finds its operands computed.
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
  std::vector<ValueId> operands;  // what it reads from memory, each once
  std::vector<ValueId> results;   // the nodes that others, or outputs, need
};

enum class Fusion : uint8_t {
  kNone,  // every node is in a group of its own
  kFlat,  // of whole flat buffers: vectors with as many elements as a state has, as optimizers and clipping compute
          // with
  kAll,
};

// Fuses element-wise nodes where no path leaves a group and comes back.
// Expand and constant nodes that a kernel reads as a tensor become groups of their own (copies).
std::vector<Group> make_groups(const Program& program, Fusion fusion = Fusion::kAll);

std::string to_string(const Program& program, const std::vector<Group>& groups);

}  // namespace runner::backends
