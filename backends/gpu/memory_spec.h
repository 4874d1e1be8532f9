// What is known of an emulated GPU's memory before anything is in it.  A value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace runner::backends::gpu {

struct MemorySpec {
  std::string device;                   // "gpu 0"
  int64_t limit = 0;                    // bytes
  bool captures = false;                // steps become captured graphs, which take more
  std::vector<int64_t> arrays = {};     // that are to be made, in bytes; empty: nobody has said
  std::vector<int64_t> for_parts = {};  // those beside them if batches came in parts: gradients that are kept
};

}  // namespace runner::backends::gpu
