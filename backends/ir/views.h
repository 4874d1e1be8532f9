// Which nodes compute nothing.
#pragma once

#include "backends/ir/program.h"

namespace runner::backends {

// Nodes that share their operand's buffer: reshape, and slices that are one run of its elements.
bool is_view(const Program& program, ValueId id);

// The element of its operand at which a view begins.
int64_t view_start(const Program& program, ValueId id);

// Nodes that cost nothing where they stand: views, and those that readers look through (expand, constant).
bool is_free(const Program& program, ValueId id);

}  // namespace runner::backends
