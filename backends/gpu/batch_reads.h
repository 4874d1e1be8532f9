// Which inputs of a batch a Program reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/ir/program.h"

namespace runner::backends::gpu {

// Inputs of at most this many bytes, such as a seed, are passed as kernel arguments; larger ones are copied.
inline constexpr int64_t kMostOfLaunch = 16;

struct BatchRead {
  size_t input = 0;     // index among the batch inputs
  size_t declared = 0;  // index into Program::inputs()
  int64_t bytes = 0;

  bool is_copied() const { return bytes > kMostOfLaunch; }
};

std::vector<BatchRead> batch_reads_of(const Program& program);

}  // namespace runner::backends::gpu
