// Makes the batches of one replica: begun in plan order, filled by whoever has the time.
//
// What a batch holds depends on the plan, the seed and the transform alone, never on who fills it or when.  Thread
// safety: begin() is called by one thread at a time; fill() may run for several batches at once, and beside begin(),
// unless fills_in_turn().
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "runner/data/batch_slots.h"
#include "runner/data/loader.h"
#include "runner/data/order.h"
#include "runner/data/stream.h"

namespace runner::data {

class BatchMaker {
 public:
  // The data set must outlive it; epochs and prefetching are left to the loader.
  BatchMaker(const Dataset& dataset, const DataPlan& plan, const LoaderSpec& spec);

  // The most samples that a batch has.
  int64_t largest() const;
  // Samples of a stream are read, and those of a transform made, one behind the other.
  bool fills_in_turn() const { return stream_.has_value() || spec_.transform != nullptr; }

  // Takes the next batch of the plan as number `number`: its place, its samples and the memory for them.  Throws
  // Error(kRun) past the last epoch.
  void begin(BatchSlot& slot, int64_t number, BatchSlots& slots);

  // Writes its samples.  `leaves` is asked before each one that is transformed: the batch is left half done if so.
  void fill(BatchSlot& slot, const std::function<bool()>& leaves);

 private:
  Slice share(const DataPlan& plan, int64_t replica) const;
  int64_t repeats(const DataPlan& plan) const;
  void transform(BatchSlot& slot, const std::function<bool()>& leaves);

  const Dataset& dataset_;
  const DataPlan whole_, rest_;  // of an epoch, and of what the first one has left
  const LoaderSpec spec_;
  Order order_;
  std::optional<StreamReader> stream_;
  Position at_;  // of the batch that is begun next
};

}  // namespace runner::data
