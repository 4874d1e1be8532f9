// Memory of tensors.
//
// Counts the arrays that stay on the device, the temporary memory of steps, and copies for checkpoints. Excludes data
// and the program itself. Value types.
#pragma once

#include <cstdint>

namespace runner::train {

// Bytes of one process.
struct MemoryUse {
  int64_t parameters = 0, optimizer = 0;
  int64_t gradients = 0;    // if kept between batches; otherwise they are part of activations
  int64_t other = 0;        // loss sums, loss scale, error feedback of gradient compression
  int64_t activations = 0;  // temporary memory of steps
  int64_t largest_array = 0;
  int64_t common = 0;  // part of these that all processes share; exists once

  int64_t resident() const { return parameters + optimizer + gradients + other; }
  int64_t total() const { return resident() + activations; }
  int64_t total_of(int64_t processes) const { return common + processes * (total() - common); }
};

// Peak memory of a process during each activity.
struct PeakMemory {
  int64_t training = 0, evaluation = 0, saving = 0;
};

// Whether the temporary memory of an evaluation is given back at its end: freeing what is little more than training
// needs would cost more page faults than it saves memory. `training`, `evaluation`: bytes of temporary memory.
inline bool is_released_after_evaluation(int64_t training, int64_t evaluation) {
  return evaluation > training + training / 8;
}

// Additional memory for saving a checkpoint: the checkpoint itself, and one array at a time while it is copied.
inline int64_t copies_for_state(const MemoryUse& use, int64_t state_bytes) {
  return state_bytes + use.largest_array;
}

}  // namespace runner::train
