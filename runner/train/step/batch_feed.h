// The batches of a training, the next one of which is on its way to the device while this one is computed.
//
// A device without streams has each when a step is submitted.  Not thread-safe.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <utility>

#include "backends/backend.h"
#include "runner/data/encoding.h"
#include "runner/data/loader.h"
#include "runner/train/step/window.h"

namespace runner::train {

class BatchFeed {
 public:
  // `give_up`: of waiting for a batch, as Loader::wait() has it; empty: never.  All must outlive it.
  BatchFeed(data::Loader& loader, std::function<bool()> give_up, backends::Device& device,
            const data::Encoding& encoding)
      : loader_(loader), give_up_(std::move(give_up)), streams_(device.streams()), encoding_(encoding) {}
  ~BatchFeed() {
    if (streams_ != nullptr) streams_->drop_staged();
  }
  BatchFeed(const BatchFeed&) = delete;
  BatchFeed& operator=(const BatchFeed&) = delete;

  // Loader::next().
  const data::Batch& next();
  // What a step on the beginning of that batch names (Arguments::staged); 0: nothing.
  uint64_t staged() const { return staged_; }
  // Throws OutOfMemory where the device had not enough for its copy.
  void throw_failure();
  // Begins to copy the first part of the batch behind it, where batches are made ahead; waits until that is made, so
  // that what is copied when is the same in each run.  `like`: a step of its kind.  Where it finds no room, that is
  // told when the batch is taken: what is under way is not the worse for it.
  void stage_next(const backends::Executable& like, const WindowParts& parts);

 private:
  data::Loader& loader_;
  const std::function<bool()> give_up_;
  backends::DeviceStreams* const streams_;  // null: the device has none
  const data::Encoding& encoding_;
  const data::Batch* next_ = nullptr;  // that next_staged_ is of
  uint64_t staged_ = 0, next_staged_ = 0;
  std::exception_ptr failure_;
};

}  // namespace runner::train
