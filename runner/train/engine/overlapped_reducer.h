// Overlaps the all-reduce of gradients between hosts with the backward pass, bucket by bucket.
//
// The device records an event when the gradients of a bucket are ready. A thread of this object then replaces them by
// their sums over all ranks, in the order of the buckets, which is the same on all ranks. Sums are the left fold over
// ranks, so the bits do not depend on the boundaries of buckets.
//
// Each rank has one object, and all ranks must make the same calls. Between begin() and finish(), no other thread may
// call the process group's collectives. Otherwise not thread-safe.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "backends/dist/process_group.h"
#include "backends/exec/backend.h"
#include "runner/train/step/gradient_buckets.h"
#include "runner/train/step/step_builder.h"
#include "schema/base/error.h"

namespace runner::train {

class OverlappedReducer {
 public:
  // Memory of the gradients of each flat buffer; null for one that is not trained.
  using Gradients = std::vector<std::byte*>;

  // Whether ranks without symmetric memory may reduce the gradients of this recipe before the update.
  static bool fits(const StepBuilder& builder, const backends::Device& device);
  // All arguments, and the memory of the gradients, must outlive the object.
  OverlappedReducer(const StepBuilder& builder, Gradients gradients, backends::ProcessGroup& ranks);
  ~OverlappedReducer();
  OverlappedReducer(const OverlappedReducer&) = delete;
  OverlappedReducer& operator=(const OverlappedReducer&) = delete;

  // Returns the signals for the last micro-batch of optimizer step `step`. Valid until the next call.
  std::span<const backends::Signal> begin(int64_t step);
  bool has_begun() const { return has_begun_; }
  // Like begin(), for a rank without such a micro-batch whose gradients are already complete.
  void begin_complete(int64_t step);
  // Waits until all gradients are sums. Throws the error of a collective.
  void finish();
  // Ends a reduction that has begun and cannot be finished because of `reason`: declares this rank failed, so that no
  // rank waits for it. Does nothing if none has begun.
  void abandon(const Error& reason) noexcept;

 private:
  class Ready final : public backends::CalledEvent {
   public:
    Ready(OverlappedReducer& reducer, size_t bucket) : reducer_(reducer), bucket_(bucket) {}
    void record() noexcept override { reducer_.count_ready(bucket_); }

   private:
    OverlappedReducer& reducer_;
    const size_t bucket_;
  };

  void count_ready(size_t bucket) noexcept;
  void work();
  std::exception_ptr reduce(size_t bucket) noexcept;
  bool is_done() const { return next_ == buckets_.size() || failure_ != nullptr; }
  bool has_work() const { return !is_done() && missing_[next_] == 0; }

  const GradientBuckets buckets_;
  const Gradients gradients_;
  backends::ProcessGroup& ranks_;
  std::vector<Ready> events_;  // by bucket
  std::vector<backends::Signal> signals_;
  bool has_begun_ = false;
  int64_t step_ = 0;

  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::vector<size_t> missing_;  // by bucket: signals until its gradients are ready
  size_t next_;                  // bucket to reduce; their number: none
  bool is_reducing_ = false;
  bool ends_ = false;
  std::exception_ptr failure_;
  std::thread thread_;  // last, since it uses the others
};

}  // namespace runner::train
