// Which states a graph takes.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/graph/program.h"

namespace runner::backends::tpu {

// The states that something an output needs is computed from, by index among the states.
std::vector<int32_t> states_read(const Program& program);

}  // namespace runner::backends::tpu
