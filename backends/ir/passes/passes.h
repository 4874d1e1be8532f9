// Passes that turn a recorded Program into a smaller one with the same results, bit for bit.
#pragma once

#include "backends/ir/program.h"

namespace runner::backends {

// Constant folding and algebraic simplification, by the fold rules of the ops: ops on constants, x·1, x/1, x−0, a
// movement of a movement, where with a known condition. Only rewrites that are exact in IEEE arithmetic; inputs keep
// their index.
Program fold(const Program& program);

// Common subexpression elimination: all readers use the first of equal nodes; the others become dead.
Program cse(const Program& program);

// Dead code elimination. Inputs stay, so that they keep their index.
Program dce(const Program& program);

// Returns the nodes that the outputs depend on, and all states, which keep their index among the states. For Programs
// that are not executed.
Program part_for_outputs(const Program& program);

// Returns the nodes that the outputs depend on, and all inputs before the first node that is none.
Program live_part(const Program& program);

// Returns the form that plans are made from: every output is a computed value, neither an input nor a view of one, and
// every element-wise node has an operand in memory.
Program legalise(const Program& program);

// fold, cse, dce. With RUNNER_DEBUG ≥ 4, prints each stage to stderr and verifies it.
Program optimise(const Program& program);

}  // namespace runner::backends
