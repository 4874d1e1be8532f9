// Memory for the batches of a loader: slots of equal size, used as a ring.
//
// The memory is allocated once and all its pages are touched, so that filling a slot causes no allocation and no page
// fault. Each tensor of a batch is 64-byte aligned. Thread safety: different slots may be written concurrently.
#pragma once

#include <array>
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
#include "runner/data/inputs.h"
#include "runner/data/loader.h"
#include "runner/data/plan.h"
#include "runner/data/stream.h"

namespace runner::data {

// Layout of a batch in its slot: byte offsets of its tensors.
struct BatchLayout {
  // `is_mixed`: the labels are probabilities of the classes (Batch::targets).
  BatchLayout(const Dataset& dataset, int64_t most, bool is_mixed);

  std::array<size_t, kMaxInputs> inputs{}, input_bytes{};  // input_bytes: per sample
  size_t class_labels, targets;                            // elements per sample
  size_t labels, weights, ids, bytes;
};

// A slot: position in the plan, memory to write, and the Batch that the consumer reads.
struct alignas(backends::kAlignment) BatchSlot {
  Batch batch;
  std::exception_ptr failure;     // set if the batch could not be made
  std::atomic<int64_t> made = 0;  // number + 1 once the batch is complete
  int64_t number = 0;             // of the batch, from 0
  Slice slice;
  BatchRows rows;
  std::span<float> weights;
};

class BatchSlots {
 public:
  BatchSlots(const BatchLayout& layout, int64_t count);

  BatchSlot& operator[](int64_t number) { return slots_[static_cast<size_t>(number) % slots_.size()]; }
  // Assigns memory for a batch of `size` samples to a slot. `length`: as Batch::length.
  void lay_out(BatchSlot& slot, int64_t size, int64_t length);

 private:
  struct Free {
    void operator()(std::byte* bytes) const { ::operator delete[](bytes, std::align_val_t{backends::kAlignment}); }
  };

  const BatchLayout layout_;
  std::vector<BatchSlot> slots_;
  const std::unique_ptr<std::byte[], Free> memory_;
};

}  // namespace runner::data
