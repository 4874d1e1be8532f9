// Why an operation that runs alone had to be compiled: how it differs from the newest of its kind.
#pragma once

#include <deque>
#include <string>

#include "backends/tpu/miss_cause.h"

namespace runner::backends::tpu {

// `number`: what is said of a number that is part of it; empty: there is none.
MissCause cause_of_op(const Program& op, const std::string& number, const std::deque<Graph>& compiled);

}  // namespace runner::backends::tpu
