// Memory of a TPU whose operations run one by one: live tensors plus the result of the running operation.
//
// A result occupies its own padded memory (tiling.h) from its operation until its last reader has run. The old contents
// of a state stay until the new ones exist and nothing reads the old ones. Arguments, prefetched batches and the code
// of all operations are resident throughout, as in hbm.h. No buffer is donated or reused.
#pragma once

#include <vector>

#include "backends/tpu/lowered_graph.h"
#include "backends/tpu/op_split.h"

namespace runner::backends::tpu {

struct EagerMoment {
  int64_t result = 0;                // padded bytes of the operation's result
  int64_t unpadded = 0, padded = 0;  // bytes of all tensors while it runs, its result included
  int64_t with_batch = 0;            // padded bytes that grow with the batch
  int64_t with_own = 0;              // padded bytes of hook tensors that grow with neither batch nor model
};

struct EagerMemory {
  std::vector<EagerMoment> moments;  // by operation
  int64_t reserved = 0, usable = 0;  // constants of the generation
  int64_t code = 0, prefetched = 0;

  int64_t used(size_t op) const { return moments[op].padded + code + prefetched; }
  int64_t peak(size_t op) const { return reserved + used(op); }
};

// `programs`: number of distinct operations; each has its own code.
EagerMemory eager_memory(const Program& tensors, const std::vector<SplitOp>& ops, int64_t programs,
                         const Hardware& hardware);

}  // namespace runner::backends::tpu
