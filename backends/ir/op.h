// The operations of the engine by number, name, kind and arity: what code may ask of an op at compile time.  Everything
// else about an op is in its definition (op_def.h).
#pragma once

#include <cstdint>
#include <iterator>
#include <string_view>

namespace runner::backends {

enum class Op : uint8_t {
#define RUNNER_OP(id, name, kind, least, most) id,
#include "backends/ir/op_list.def"
};

// What an op does with its operands, and so how plans, passes and device models treat it.
enum class OpKind : uint8_t {
  kLeaf,         // inputs and constants
  kElementwise,  // element i of the result from elements i of the operands; fused into loops
  kReduction,    // over axes, which the result does not have
  kMovement,     // elements in another order or place; computes nothing
  kIndexing,     // reads or writes at indices that are values
  kContraction,  // sums of products; runs on matrix units
  kRow,          // over the last axis
  kRandom,
  kCollective,  // between replicas, which wait for each other: never left out, merged or reordered
};

// One array each, so that all kinds are in one cache line: passes and plans ask for them most.
inline constexpr OpKind kOpKinds[] = {
#define RUNNER_OP(id, name, kind, least, most) OpKind::kind,
#include "backends/ir/op_list.def"
};
inline constexpr std::string_view kOpNames[] = {
#define RUNNER_OP(id, name, kind, least, most) name,
#include "backends/ir/op_list.def"
};
struct OpArity {
  int8_t least, most;  // most −1: any number
};
inline constexpr OpArity kOpArities[] = {
#define RUNNER_OP(id, name, kind, least, most) {least, most},
#include "backends/ir/op_list.def"
};
inline constexpr int kOpCount = static_cast<int>(std::size(kOpKinds));

constexpr std::string_view name_of(Op op) {
  return kOpNames[static_cast<int>(op)];
}
constexpr OpKind kind_of(Op op) {
  return kOpKinds[static_cast<int>(op)];
}
constexpr bool takes_operands(Op op, size_t count) {
  const OpArity& arity = kOpArities[static_cast<int>(op)];
  return count >= static_cast<size_t>(arity.least) && (arity.most < 0 || count <= static_cast<size_t>(arity.most));
}

constexpr bool is_elementwise(Op op) {
  return kind_of(op) == OpKind::kElementwise;
}
constexpr bool is_collective(Op op) {
  return kind_of(op) == OpKind::kCollective;
}

}  // namespace runner::backends
