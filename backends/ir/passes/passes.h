// Passes that turn a Program into one with the same results, bit for bit (join_pads: but for the sign of zeros), and
// their verification.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/ir/program.h"

namespace runner::backends {

// Constant folding and algebraic simplification, by the fold rules of the ops: ops on constants, x·1, x/1, x−0, a
// movement of a movement, where with a known condition. Only rewrites that are exact in IEEE arithmetic; inputs keep
// their index.
Program fold(const Program& program);

// Common subexpression elimination: all readers use the first of equal nodes; the others become dead.
Program cse(const Program& program);

// What prune() keeps in addition to the nodes that outputs depend on.
enum class Keep : uint8_t {
  kInputsAndCollectives,  // inputs keep their index, and ranks stay in step
  kStates,                // states keep their index among the states
  kLeadingInputs,         // inputs that are recorded before all other nodes
};
Program prune(const Program& program, Keep keep);

// Dead code elimination for Programs that are executed: keeps inputs and collectives.
inline Program dce(const Program& program) {
  return prune(program, Keep::kInputsAndCollectives);
}

// Returns the Program with constants in place of inputs. `by_input`: value of each input; none: the input stays as it
// is. Replaced inputs stay declared.
Program with_constants(const Program& program, std::span<const std::optional<double>> by_input);

// For Programs whose element-wise ops are fused: a sum of tensors padded with zeros that together fill an axis becomes
// their concatenation, or the tensor whose parts they all are. The gradients of slices are such sums. A −0 stays −0.
Program join_pads(const Program& program);

// Returns the form that plans are made from: every output is a computed value, neither an input nor a view of one, and
// every element-wise node has an operand in memory.
Program legalise(const Program& program);

// For Programs whose element-wise ops are fused: readers of a cast from 16-bit floats to f32 get one of their own if a
// kernel comes between. Otherwise the f32 values, or what readers near the cast make of them, would stay in memory from
// the forward to the backward pass.
Program repeat_casts(const Program& program);

// Cuts what does not change out of a Program that is executed many times. Its first `constant_states` inputs must be
// states that no output replaces, and no input may be a rounded copy (Input::rounded_of).
struct Hoisted {
  std::vector<Program> values;  // each computes its state 0 from the constant states, which follow
  Program rest;                 // its first states are the values
};
Hoisted hoist(const Program& program, int constant_states);

// fold, cse, dce. With RUNNER_DEBUG ≥ 4, prints each stage to stderr and verifies it.
Program optimise(const Program& program);

// Returns the Program in the order in which PyTorch/XLA prints graphs: only the nodes that the outputs depend on, in
// depth-first order from the outputs, inputs included. An output that replaces a state which is no longer an input
// loses that state.
Program in_post_order(const Program& program);

// Returns the Program with each attention as products, softmax and dropout, which a device without a fused kernel runs
// (attention.h). The gradient reads the softmax of the forward pass. The results differ by rounding. Nodes before the
// first attention keep their ids.
Program compose_attention(const Program& program);

// Verifies the invariants of Programs: after each pass in tests and with RUNNER_DEBUG=4. Returns an empty string if the
// Program is well formed, else the first fault: an operand that is not computed before its use, a type that the type
// rule does not give, an input that is not in the input list, or two outputs for one state.
std::string verify(const Program& program);

}  // namespace runner::backends
