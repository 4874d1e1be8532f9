// What the numbers of the host contribute to the key of a graph.
//
// PyTorch/XLA bakes 0, 1 and −1 into a graph; any other number is a parameter of it, and numbers of equal value are one
// parameter.  So the key holds which numbers are baked and which are equal, and no other value.  The rules are measured
// (tests/golden/xla/scalars.py).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backends/backend.h"

namespace runner::backends::tpu {

// One word for each scalar.
using ScalarSignature = std::vector<int64_t>;

ScalarSignature signature_of(std::span<const TracedScalar> scalars);

// Why the numbers of `now` make another graph than those of `before`, as many: "-lr was -0.1 and is 0 now, which is
// part of the graph (0, 1 and -1 are)".  Empty where they do not.
std::string difference(std::span<const TracedScalar> before, std::span<const TracedScalar> now);

}  // namespace runner::backends::tpu
