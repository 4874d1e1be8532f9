// Initial values of parameters.
#pragma once

#include <cstdint>
#include <span>

#include "backends/kernels/philox.h"

namespace runner::backends {

enum class Distribution : uint8_t { kUniform, kNormal };  // in [−1, 1); mean 0 and variance 1

// Writes the values of the elements from `first` on, times `scale`. They are the same in every instruction set
// (docs/numerics.md, "Random numbers").
void draw_initial(Distribution distribution, const ElementStream& stream, int64_t first, float scale,
                  std::span<float> values);

}  // namespace runner::backends
