// The memory that tensors take.
//
// Counted are the arrays that stay on the device, the temporary memory of steps, and copies for states; data and the
// program itself are not.  Values.
#pragma once

#include <cstdint>

namespace runner::train {

// Bytes of one process.
struct MemoryUse {
  int64_t parameters = 0, optimizer = 0;
  int64_t gradients = 0;    // kept between batches; elsewhere they are among the activations
  int64_t other = 0;        // sums of the loss, its scale, what compressed gradients lack
  int64_t activations = 0;  // temporary memory of steps
  int64_t largest_array = 0;
  int64_t common = 0;  // of all these: what the processes have together, there once

  int64_t resident() const { return parameters + optimizer + gradients + other; }
  int64_t total() const { return resident() + activations; }
  int64_t total_of(int64_t processes) const { return common + processes * (total() - common); }
};

// The most that a process has at once while it does one of these.
struct PeakMemory {
  int64_t training = 0, evaluation = 0, saving = 0;
};

// What saving a state takes beside what is there: the state, and one array at a time on its way into it.
inline int64_t copies_for_state(const MemoryUse& use, int64_t state_bytes) {
  return state_bytes + use.largest_array;
}

}  // namespace runner::train
