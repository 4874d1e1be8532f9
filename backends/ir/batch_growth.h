// What of a Program is larger for a larger batch.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backends/ir/program.h"

namespace runner::backends {

// The first axis of the first batch input.  None: there is no batch.
std::optional<int64_t> batch_size_of(const Program& program);

// By value: does it grow with the batch, whose size is the first axis of the batch inputs?  Sums over samples, as
// gradients of parameters are, do not.
std::vector<char> grows_with_batch(const Program& program);

}  // namespace runner::backends
