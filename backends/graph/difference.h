// Where two Programs part.
#pragma once

#include "backends/graph/program.h"

namespace runner::backends {

// The first place at which they have another op, type, operand or attribute; the size of the shorter one where, as far
// as it goes, they have the same.
ValueId first_difference(const Program& a, const Program& b);

}  // namespace runner::backends
