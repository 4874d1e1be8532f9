// Left fold of the ranks' values: ((rank 0 ∘ rank 1) ∘ rank 2) ∘ …
#pragma once

#include <cstddef>
#include <span>

#include "backends/dist/process_group.h"
#include "backends/tensor/dtype.h"

namespace runner::backends {

// Writes the fold of `sources`, each of `bytes` bytes, to `target`, which may be one of the first two. `dtype`: a type
// for which is_reduced(). Integers wrap around.
void fold(DType dtype, Reduction reduction, std::span<const std::byte* const> sources, size_t bytes, std::byte* target);

}  // namespace runner::backends
