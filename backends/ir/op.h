// Ops by number, name, kind and arity: the part of their definitions that is needed at compile time. The rest is in
// op_def.h.
#pragma once

#include <cstdint>
#include <iterator>
#include <string_view>

namespace runner::backends {

enum class Op : uint8_t {
#define RUNNER_OP(id, name, kind, least, most) id,
#include "backends/ir/op_list.def"
};

// How an op treats its operands, which decides how plans, passes and device models treat the op.
enum class OpKind : uint8_t {
  kLeaf,         // inputs and constants
  kElementwise,  // element i of the result depends on elements i of the operands; fused into loops
  kReduction,    // over axes, which the result drops
  kMovement,     // moves elements, computes nothing
  kIndexing,     // reads or writes at indices given as operands
  kContraction,  // sums of products, on matrix units
  kAttention,    // softmax between products, on matrix units (attention.h)
  kWindow,       // over windows of the spatial axes (windows.h)
  kRow,          // over the last axis
  kRandom,
  kCollective,  // synchronises ranks; never dropped, merged or reordered
};

// One array per property, so that all kinds are in one cache line: passes and plans use them most.
inline constexpr OpKind kOpKinds[] = {
#define RUNNER_OP(id, name, kind, least, most) OpKind::kind,
#include "backends/ir/op_list.def"
};
inline constexpr std::string_view kOpNames[] = {
#define RUNNER_OP(id, name, kind, least, most) name,
#include "backends/ir/op_list.def"
};
struct OpArity {
  int least, most;  // most −1: any number
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

// What a collective reduces, for messages.
enum class Subject : uint8_t { kGradients, kLoss };
constexpr std::string_view name_of(Subject subject) {
  return subject == Subject::kGradients ? "gradients" : "the loss";
}

}  // namespace runner::backends
