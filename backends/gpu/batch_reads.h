// What a Program reads of a batch.  Values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/ir/program.h"

namespace runner::backends::gpu {

// A few bytes, as those of a seed, go with the launches; a GPU copies the rest.
inline constexpr int64_t kMostOfLaunch = 16;

struct BatchRead {
  size_t input = 0;     // of the batch
  size_t declared = 0;  // of Program::inputs()
  int64_t bytes = 0;

  bool is_copied() const { return bytes > kMostOfLaunch; }
};

std::vector<BatchRead> batch_reads_of(const Program& program);

}  // namespace runner::backends::gpu
