// The passes that turn a recorded Program into a smaller one with the same results, bit for bit.
#pragma once

#include "backends/ir/program.h"

namespace runner::backends {

// Replaces what is known when compiling: ops on constants, x·1, x/1, x−0, layout of layout, where of a known condition.
// Only rewrites that IEEE arithmetic makes exact; inputs keep their place.
Program fold(const Program& program);

// Makes everything use the first of equal nodes; the others are dead then.
Program cse(const Program& program);

// Drops nodes that no output needs; inputs stay, so that bindings keep their index.
Program dce(const Program& program);

// What outputs are computed from, and the states, which are known by their index: of a Program that nobody runs.
Program part_for_outputs(const Program& program);

// What outputs are computed from, and the inputs that the Program begins with, which all of its kind have.
Program live_part(const Program& program);

// The form that plans are made of: every output is a computed value, neither an input nor a view of one, and every
// element-wise node has an operand in memory.
Program legalise(const Program& program);

// fold, cse, dce.  With RUNNER_DEBUG ≥ 4, prints and verifies each stage on stderr.
Program optimise(const Program& program);

}  // namespace runner::backends
