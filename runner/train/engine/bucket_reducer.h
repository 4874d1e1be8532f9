// Overlaps the all-reduce of gradients with the backward pass, bucket by bucket, like DistributedDataParallel.
//
// A device with streams signals when the gradients of a bucket are ready. The communication stream of each rank waits
// for these signals of all ranks and sums one slice of the bucket. Sums are the left fold over ranks, so the bits do
// not depend on the boundaries of buckets and slices. The sums are written to one array shared by all ranks, from which
// each rank updates its shard of the weights.
//
// Used only with more than one bucket. With a single bucket, all gradients become ready at the same time, so the update
// adds them up itself, which saves a barrier. Not thread-safe. Each rank has one object, and all ranks must make the
// same calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "backends/device_model/modelled_device.h"
#include "backends/dist/process_group.h"
#include "backends/exec/backend.h"
#include "runner/train/engine/executor.h"
#include "runner/train/step/factored_layout.h"
#include "runner/train/step/gradient_buckets.h"
#include "runner/train/step/shard.h"
#include "runner/train/step/step_builder.h"

namespace runner::train {

class BucketReducer {
 public:
  // Allocates nothing. All arguments must outlive the object.
  BucketReducer(const StepBuilder& builder, const GradientBuckets& buckets, const Shard& shard,
                backends::ModelledDevice& device, backends::ProcessGroup& ranks);
  // Allocates the sums and exchanges the events. Collective; call it after the arrays of all ranks have been allocated.
  void allocate(const SharedArrays& arrays);

  // Returns the signals for the last micro-batch of an optimizer step. `factored`: layout of the factored gradients, or
  // null if gradients are in their arrays. Call once per optimizer step.
  std::span<const backends::Signal> begin_signals(const FactoredLayout* factored);
  // Signals all buckets at once, for a rank without such a micro-batch whose gradients are already complete.
  void signal_all(const FactoredLayout* factored);
  // Sums the gradients. Call after begin_signals() or signal_all(). `by_rank`: factored gradients of all
  // ranks, if `factored` is set.
  void reduce(const FactoredLayout* factored, std::span<const std::shared_ptr<backends::Buffer>> by_rank);

  // Whether begin_signals() has been called in this optimizer step.
  bool has_signalled() const { return has_signalled_; }

  // Events that the update must wait for. Valid until the next reduce().
  std::span<const backends::AwaitedEvent> reduced() const { return reduced_; }
  // This rank's shards of the sums, in the order of the flat buffers that it has a shard of. They are the last states
  // of the update.
  std::span<const std::shared_ptr<backends::Buffer>> sums() const { return shard_sums_; }

 private:
  using Piece = GradientBuckets::Piece;
  // The slice of a bucket that this rank sums.
  struct Reduction {
    SharedStep step;
    std::vector<std::shared_ptr<backends::Buffer>>
        states;  // after the factored gradients; filled before the first submission
  };

  std::vector<Reduction>& reductions_of(const FactoredLayout* factored);
  backends::Program program_of(size_t bucket, const FactoredLayout* factored) const;
  std::vector<std::shared_ptr<backends::Buffer>> states_of(size_t bucket, const FactoredLayout* factored) const;
  std::vector<Piece> slices_of(size_t bucket) const;
  void exchange_events();
  void add_signals(size_t bucket, const FactoredLayout* factored);
  std::shared_ptr<backends::Buffer> part_of(const SharedRows& rows, int rank, const Piece& piece) const;

  const StepBuilder& builder_;
  const nn::ParameterSet& parameters_;
  const GradientBuckets& buckets_;
  const Shard& shard_;
  backends::ModelledDevice& device_;
  backends::ProcessGroup& ranks_;
  std::vector<SharedRows> gradients_, sums_;  // per flat buffer
  std::vector<std::shared_ptr<backends::Buffer>> shard_sums_;
  std::vector<std::shared_ptr<backends::Event>> ready_;                 // per rank and bucket
  std::vector<std::shared_ptr<backends::Event>> done_;                  // per rank
  std::map<const FactoredLayout*, std::vector<Reduction>> reductions_;  // per bucket
  std::vector<uint64_t> signalled_;  // per bucket: number of signals so far, the same on each rank
  bool has_signalled_ = false;
  uint64_t steps_ = 0;
  std::vector<backends::Signal> signals_;
  std::vector<backends::AwaitedEvent> reduced_;
};

}  // namespace runner::train
