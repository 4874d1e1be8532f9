// The static memory plan of a Program on a TPU: what XLA would allocate before the first step runs.
//
//     peak = reserved + arguments + outputs − aliased + temporaries + code + prefetched batches
//
// Every tensor counts with its padding (tiling.h).  Arguments and outputs live as long as the program; a state that is
// replaced gives its memory to its new value, unless that is written before the old one has been read: then it waits
// among the temporaries.  Temporaries are packed by their lives (heap.h), and an element-wise result takes the memory
// of an operand of its size that dies there.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/tpu/generation.h"
#include "backends/tpu/tensors.h"

namespace runner::backends::tpu {

struct HbmOptions {
  Generation generation = Generation::kV3;
  bool donate = true;              // a step marker gives replaced states away, a partial sync does not
  int64_t prefetched_batches = 0;  // that wait on the device: tpu.device_prefetch_size
  Ordering ordering = Ordering::kRowMajor;
};

// Machine code of a fusion: assumed, since no source says; large steps come to some tens of megabytes with it.
inline constexpr int64_t kCodeOfGroup = 32 * 1024;

enum class Allocation : uint8_t { kArgument, kOutput, kTemporary };

// A tensor in memory.
struct HbmBuffer {
  DeviceTensor tensor;
  Allocation allocation = Allocation::kTemporary;
  int first = 0, last = 0;  // groups between which it holds something; −1: before them all, their number: to the end
  int block = -1;           // of a temporary: which it shares with what it took over and what takes it over
  int64_t offset = 0;       // of a temporary, in their heap

  int64_t padded() const { return tensor.layout.bytes; }
  int64_t padding() const { return padded() - tensor.unpadded(); }
  bool lives_at(int step) const { return first <= step && step <= last; }
};

struct HbmPlan {
  int64_t reserved = 0, capacity = 0;  // of the generation; capacity includes reserved
  int64_t arguments = 0;
  int64_t outputs = 0;  // new values of states, and what is returned
  int64_t aliased = 0;  // of the outputs: in the memory of arguments
  int64_t temporaries = 0;
  int64_t code = 0;  // an estimate
  int64_t prefetched = 0;

  int fullest = 0;                                       // the group at which most temporaries live
  int64_t fullest_bytes = 0;                             // of them then; the rest of `temporaries` is fragmentation
  int64_t fullest_unpadded = 0, arguments_unpadded = 0;  // without padding
  std::vector<HbmBuffer> buffers;  // arguments in order of the inputs, then as they are computed; new values of states
                                   // that stand in the memory of the old are not among them

  int64_t used() const { return arguments + outputs - aliased + temporaries + code + prefetched; }
  int64_t peak() const { return reserved + used(); }
  int64_t usable() const { return capacity - reserved; }
  bool fits() const { return used() <= usable(); }
};

HbmPlan plan_hbm(const DeviceProgram& device, const HbmOptions& options);

// The bytes of tensors.
struct TensorBytes {
  int64_t unpadded = 0, padded = 0;
};
// Of those that live at the fullest moment.
TensorBytes tensors_at_peak(const HbmPlan& plan);

// Those that live at the fullest moment, largest first: what there is to save.
std::vector<HbmBuffer> largest_at_peak(const HbmPlan& plan, size_t count);

}  // namespace runner::backends::tpu
