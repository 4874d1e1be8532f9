// The left fold of ranks' values: ((rank 0 ∘ rank 1) ∘ rank 2) ∘ …
#pragma once

#include <cstddef>
#include <span>

#include "backends/collectives/collectives.h"
#include "backends/tensor/dtype.h"

namespace runner::backends {

// Writes the fold of `sources`, each of `bytes` bytes, at `target`, which may be none of them.  dtype: one that
// is_reduced(); integers wrap around.
void fold(DType dtype, Reduction reduction, std::span<const std::byte* const> sources, size_t bytes, std::byte* target);

}  // namespace runner::backends
