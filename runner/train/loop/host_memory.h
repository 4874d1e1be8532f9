// The host memory that replicas of a real TPU would need, by how they start.
//
// Forked processes share the pages of a model that was made before and of the data; spawned ones have a copy of each.
// What Python and its libraries take comes on top, in each process.
#pragma once

#include <cstdint>

#include "runner/train/loop/session.h"

namespace runner::train {

struct HostMemory {
  int64_t weights = 0;  // bytes of the model, f32
  int64_t data = 0;     // of the samples in memory as tensors: f32 features and targets, i64 classes
  int64_t processes = 1;

  int64_t forked() const { return weights + data; }
  int64_t spawned() const { return processes * (weights + data); }
};

HostMemory host_memory(const Session& session);

}  // namespace runner::train
