// The memory of a TPU whose operations run one by one: what is live, and the result of the one that runs.
//
// A result is in memory of its own, padded (tiling.h), from its operation until the last that reads it; a state's old
// contents until the new ones are there and nothing reads the old.  Arguments, prefetched batches and the code of all
// operations are there throughout, as in a graph's plan (hbm.h).  Nothing is donated or taken over.
#pragma once

#include <vector>

#include "backends/tpu/lowered_graph.h"
#include "backends/tpu/op_cut.h"

namespace runner::backends::tpu {

struct EagerMoment {
  int64_t result = 0;                // padded bytes of what the operation computes
  int64_t unpadded = 0, padded = 0;  // of the tensors while it runs, its result included
  int64_t with_batch = 0;            // of the padded: as it grows with the batch
  int64_t with_own = 0;              // of the padded: of tensors of a hook's that grow with neither batch nor model
};

struct EagerMemory {
  std::vector<EagerMoment> moments;  // by operation
  int64_t reserved = 0, usable = 0;  // of the generation
  int64_t code = 0, prefetched = 0;

  int64_t used(size_t op) const { return moments[op].padded + code + prefetched; }
  int64_t peak(size_t op) const { return reserved + used(op); }
};

// `programs`: different ones among the operations, of which each has its code.
EagerMemory eager_memory(const Program& tensors, const std::vector<CutOp>& ops, int64_t programs,
                         const Hardware& hardware);

}  // namespace runner::backends::tpu
