// The memory of a loader's batches: slots of one size that are used in turn.
//
// Allocated once and all there from the beginning: to fill a slot takes no allocation and no page fault.  Each part of
// a batch is 64-byte aligned.  Thread safety: slots may be written at the same time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "backends/tensor/alignment.h"
#include "runner/data/dataset.h"
#include "runner/data/loader.h"
#include "runner/data/plan.h"
#include "runner/data/stream.h"

namespace runner::data {

// Where the parts of one batch lie in its slot, in bytes; features come first.
struct BatchLayout {
  BatchLayout(const Dataset& dataset, int64_t most);

  size_t width, class_labels, targets;  // values of one sample
  size_t labels, weights, ids, bytes;
};

// A batch that is made: what of the plan it is, the memory to be written, and what its reader sees of it.
struct alignas(backends::kAlignment) BatchSlot {
  Batch batch;
  std::exception_ptr failure;     // instead of the batch
  std::atomic<int64_t> made = 0;  // number + 1 when it is to be read
  int64_t number = 0;             // of the batch, from 0
  Slice slice;
  BatchRows rows;
  std::span<float> weights;
};

class BatchSlots {
 public:
  BatchSlots(const BatchLayout& layout, int64_t count);

  BatchSlot& operator[](int64_t number) { return slots_[static_cast<size_t>(number) % slots_.size()]; }
  // Gives a slot the memory of a batch of `size` samples.
  void lay_out(BatchSlot& slot, int64_t size);

 private:
  struct Free {
    void operator()(std::byte* bytes) const { ::operator delete[](bytes, std::align_val_t{backends::kAlignment}); }
  };

  const BatchLayout layout_;
  std::vector<BatchSlot> slots_;
  const std::unique_ptr<std::byte[], Free> memory_;
};

}  // namespace runner::data
