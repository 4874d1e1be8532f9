// Assembles the batches of one rank. begin() is called in plan order; fill() may run on any thread.
//
// The contents of a batch depend only on the plan, the seed and the transform. Thread safety: one thread at a time may
// call begin(). fill() may run concurrently for several batches and with begin(), unless fills_in_turn().
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "runner/data/batch_slots.h"
#include "runner/data/loader.h"
#include "runner/data/order.h"
#include "runner/data/stream.h"

namespace runner::data {

class BatchMaker {
 public:
  // The data set must outlive this object. `spec.epochs` and the prefetching fields are left to the loader.
  BatchMaker(const Dataset& dataset, const DataPlan& plan, const LoaderSpec& spec);

  // Largest number of samples in a batch.
  int64_t largest() const;
  // Whether batches must be filled one after the other: those of a stream, and those with a transform.
  bool fills_in_turn() const { return stream_.has_value() || spec_.transform != nullptr; }

  // Whether labels are probabilities of the classes (Batch::targets).
  bool mixes() const { return spec_.augmenter && spec_.augmenter->mixes(); }

  // Starts batch `number`, the next one of the plan: sets its position and its sample ids, and assigns its memory.
  // Throws Error(kRun) after the last epoch. `leaves` is polled while the samples of an epoch are shuffled. If it
  // returns true, returns false: no batch has begun.
  bool begin(BatchSlot& slot, int64_t number, BatchSlots& slots, const std::function<bool()>& leaves);

  // Writes the samples of a batch. `scratch`: of the calling thread. `leaves` is polled before each transform. If it
  // returns true, returns false: the batch is incomplete.
  bool fill(BatchSlot& slot, Augmenter::Scratch& scratch, const std::function<bool()>& leaves);

 private:
  const DataPlan& plan_at(const Position& position) const { return position.start == 0 ? whole_ : rest_; }
  Slice share(const DataPlan& plan, int64_t rank) const;
  int64_t repeats(const DataPlan& plan) const;
  int64_t length(const DataPlan& plan) const;
  void gather(BatchSlot& slot, Augmenter::Scratch& scratch) const;
  void gather_augmented(const SampleKey& key, const BatchRows& rows, Augmenter::Scratch& scratch) const;
  bool transform(BatchSlot& slot, const std::function<bool()>& leaves);

  const Dataset& dataset_;
  const DataPlan whole_, rest_;  // plan of a full epoch, and of the rest of the first epoch
  const LoaderSpec spec_;
  Order order_;
  std::optional<StreamReader> stream_;
  Position at_;  // position of the next batch to begin
};

}  // namespace runner::data
