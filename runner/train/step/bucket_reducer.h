// Gradients that replicas add up while they still compute: in buckets, as DistributedDataParallel has them.
//
// A device with streams tells when the gradients of a bucket are ready.  The communication stream of each replica waits
// for those of all, and adds up a slice of the bucket for everyone: the left fold over ranks, to the bit, wherever the
// bucket and its slices end.  Behind it stand the sums of all, in one array that all replicas have together, from which
// each updates its share of the weights.
//
// For more buckets than one: where one has all gradients, all is computed when it is ready, and the update adds them up
// itself, which spares the replicas a meeting.  Not thread-safe; each replica has one, and all make the same calls.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "backends/backend.h"
#include "backends/collectives/collectives.h"
#include "runner/train/step/executor.h"
#include "runner/train/step/gradient_buckets.h"
#include "runner/train/step/gradient_message.h"
#include "runner/train/step/shares.h"
#include "runner/train/step/step_builder.h"

namespace runner::train {

class BucketReducer {
 public:
  // Without memory yet.  All arguments must outlive it.
  BucketReducer(const StepBuilder& builder, const GradientBuckets& buckets, const Shares& shares,
                backends::Device& device, backends::Collectives& ranks);
  // Called by all together, behind the arrays of all.
  void allocate(const SharedArrays& arrays);

  // What the step that ends a window, and leaves its gradients in their arrays or in a message (null: in their arrays),
  // is to signal.
  // Once in a window.
  std::span<const backends::Signal> begin_signals(const MessageLayout* message);
  // For a replica whose gradients of this window are there, without such a step.
  void signal_all(const MessageLayout* message);
  // Behind either: adds them up.  `messages`: of all ranks, where gradients travel so.
  void reduce(const MessageLayout* message, std::span<const std::shared_ptr<backends::Buffer>> messages);

  // Whether what ends the window has told, or will tell.
  bool has_signalled() const { return has_signalled_; }

  // What an update comes after; valid until the next call of reduce().
  std::span<const backends::EventCount> reduced() const { return reduced_; }
  // Of each flat buffer that this rank has a share of, in order, its share of the sums: the states of an update behind
  // all others.
  std::span<const std::shared_ptr<backends::Buffer>> sums() const { return share_sums_; }

 private:
  using Piece = GradientBuckets::Piece;
  // What this rank adds up of a bucket.
  struct Reduction {
    SharedStep step;
    std::vector<std::shared_ptr<backends::Buffer>> states;  // behind the messages, from the first submission on
  };

  std::vector<Reduction>& reductions_of(const MessageLayout* message);
  backends::Program program_of(size_t bucket, const MessageLayout* message) const;
  std::vector<std::shared_ptr<backends::Buffer>> states_of(size_t bucket, const MessageLayout* message) const;
  std::vector<Piece> slices_of(size_t bucket) const;
  void exchange_events();
  void add_signals(size_t bucket, const MessageLayout* message);
  std::shared_ptr<backends::Buffer> part_of(const SharedRows& rows, int rank, const Piece& piece) const;

  const StepBuilder& builder_;
  const nn::ParameterSet& parameters_;
  const GradientBuckets& buckets_;
  const Shares& shares_;
  backends::Device& device_;
  backends::Collectives& ranks_;
  std::vector<SharedRows> gradients_, sums_;  // by flat buffer
  std::vector<std::shared_ptr<backends::Buffer>> share_sums_;
  std::vector<std::shared_ptr<backends::Event>> ready_;                // by rank and bucket
  std::vector<std::shared_ptr<backends::Event>> done_;                 // by rank
  std::map<const MessageLayout*, std::vector<Reduction>> reductions_;  // by bucket
  std::vector<uint64_t> signalled_;                                    // by bucket: so far, by each rank
  bool has_signalled_ = false;
  uint64_t windows_ = 0;
  std::vector<backends::Signal> signals_;
  std::vector<backends::EventCount> reduced_;
};

}  // namespace runner::train
