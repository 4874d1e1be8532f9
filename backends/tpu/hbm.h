// Static memory plan of a Program on a TPU: what XLA allocates before the first step runs.
//
//     peak = reserved + arguments + outputs − aliased + temporaries + code + prefetched batches
//
// Every tensor counts with its padding (tiling.h). Arguments and outputs live as long as the program. A replaced state
// donates its memory to its new value. If the new value is written before the last read of the old one, it is a
// temporary first. Temporaries are packed by lifetime (pack_best_fit()). An element-wise result reuses the memory of an
// operand of equal size that dies there.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backends/tpu/tensors.h"
#include "backends/tpu/tpu_data_sheet.h"

namespace runner::backends::tpu {

struct HbmOptions {
  Generation generation = Generation::kV3;
  bool donate = true;              // a step marker donates replaced states, a partial sync does not
  int64_t prefetched_batches = 0;  // waiting on the device: tpu.device_prefetch_size
};

// Code size of a fusion. Assumed, since no source gives it; it amounts to tens of megabytes for large steps.
inline constexpr int64_t kCodeOfGroup = int64_t{32} * 1024;

enum class Allocation : uint8_t { kArgument, kOutput, kTemporary };

// A tensor with its allocation.
struct HbmBuffer {
  DeviceTensor tensor;
  Allocation allocation = Allocation::kTemporary;
  int first = 0, last = 0;  // groups between which it is live; −1: before all groups, group count: to the end
  int block = -1;           // for temporaries: id of the memory block, shared by results that reuse it
  int64_t offset = 0;       // for temporaries: offset in the heap

  int64_t padded() const { return tensor.layout.bytes; }
  int64_t padding() const { return padded() - tensor.unpadded(); }
  bool lives_at(int step) const { return first <= step && step <= last; }
};

struct HbmPlan {
  int64_t reserved = 0, capacity = 0;  // of the generation; capacity includes reserved
  int64_t arguments = 0;
  int64_t outputs = 0;  // new values of states, and returned values
  int64_t aliased = 0;  // part of the outputs that is in the memory of arguments
  int64_t temporaries = 0;
  int64_t code = 0;  // an estimate
  int64_t prefetched = 0;

  int peak_group = 0;  // group at which most bytes of temporaries are live
  // Bytes of temporaries that are live there; the rest of `temporaries` is fragmentation.
  int64_t peak_bytes = 0;
  int64_t peak_unpadded = 0, arguments_unpadded = 0;  // without padding
  std::vector<HbmBuffer> buffers;  // arguments in input order, then results in execution order, without those computed
                                   // into the memory of their state

  int64_t used() const { return arguments + outputs - aliased + temporaries + code + prefetched; }
  int64_t peak() const { return reserved + used(); }
  int64_t usable() const { return capacity - reserved; }
  bool fits() const { return used() <= usable(); }
};

HbmPlan plan_hbm(const DeviceProgram& device, const HbmOptions& options);

// Total size of a set of tensors.
struct TensorBytes {
  int64_t unpadded = 0, padded = 0;
};
// Bytes of the tensors that are live at the peak.
TensorBytes tensors_at_peak(const HbmPlan& plan);

// Returns the largest tensors that are live at the peak, largest first.
std::vector<HbmBuffer> largest_at_peak(const HbmPlan& plan, size_t count);

// Packs blocks with lifetimes into one heap, like XLA: largest first, each into the smallest gap that fits. Blocks
// whose lifetimes overlap do not overlap in the heap.
struct HeapBlock {
  int64_t bytes = 0;
  int first = 0, last = 0;  // steps, inclusive
  int64_t offset = 0;
};

// Sets the offsets. Returns the size of the heap in bytes.
int64_t pack_best_fit(std::span<HeapBlock> blocks);

struct Peak {
  int step = 0;
  int64_t bytes = 0;
};

// Returns the first step at which most bytes are live, out of `steps` steps. It is a lower bound of any heap.
Peak peak_step(std::span<const HeapBlock> blocks, int steps);

// Formats a size as XLA does: "0B", "812B", "420.0K", "530.00M", "9.08G".
std::string xla_size_text(int64_t bytes);

// Error text for a Program that does not fit: XLA's RESOURCE_EXHAUSTED with the totals, the ten largest allocations
// with operator, source line, shape and padding, and the first thing to change. `options`: those that `plan` was made
// with.
std::string resource_exhausted_text(const DeviceProgram& device, const HbmOptions& options, const HbmPlan& plan);

}  // namespace runner::backends::tpu
