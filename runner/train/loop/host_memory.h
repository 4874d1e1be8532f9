// Host memory that the ranks of a real TPU would need, depending on how processes are started.
//
// Forked processes share the pages of the data and of a model made before the fork; spawned processes have their own
// copies. Memory of Python and its libraries is not included.
#pragma once

#include <cstdint>

#include "runner/train/loop/session.h"

namespace runner::train {

struct HostMemory {
  int64_t weights = 0;  // bytes of the model, f32
  int64_t data = 0;     // bytes of the samples as tensors: f32 features and targets, i64 classes
  int64_t processes = 1;

  int64_t forked() const { return weights + data; }
  int64_t spawned() const { return processes * (weights + data); }
};

HostMemory host_memory(const Session& session);

}  // namespace runner::train
