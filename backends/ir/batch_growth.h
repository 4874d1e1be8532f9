// Which values of a Program are larger for a larger batch.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backends/ir/program.h"

namespace runner::backends {

// The size of the first axis of the first batch input; none without one.
std::optional<int64_t> batch_size_of(const Program& program);

// By value: whether it grows with the batch, whose size is the first axis of the batch inputs. Sums over samples, such
// as gradients of parameters, do not (BatchRule in op_def.h).
std::vector<char> grows_with_batch(const Program& program);

}  // namespace runner::backends
