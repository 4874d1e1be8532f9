// Properties of an emulated GPU's memory that are known before anything is allocated.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace runner::backends::gpu {

struct MemorySpec {
  std::string device;                   // "gpu 0"
  int64_t limit = 0;                    // bytes
  bool captures = false;                // steps become captured graphs, which need more memory
  std::vector<int64_t> arrays = {};     // bytes of the arrays to be made; empty: unknown
  std::vector<int64_t> for_parts = {};  // further arrays with gradient accumulation: kept gradients
};

}  // namespace runner::backends::gpu
