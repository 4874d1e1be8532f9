// Yields the training batches of a loader and copies the next batch to the device while the current one is computed.
//
// Without streams, the device copies each batch when its step is submitted. Not thread-safe.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <utility>

#include "backends/exec/backend.h"
#include "runner/data/encoding.h"
#include "runner/data/loader.h"
#include "runner/train/step/optimizer_step.h"

namespace runner::train {

class BatchFeed {
 public:
  // `give_up`: see Loader::wait(); empty to wait without limit. `loader` and `device` must outlive the object.
  BatchFeed(data::Loader& loader, std::function<bool()> give_up, backends::Device& device,
            const data::Encoding& encoding)
      : loader_(loader),
        give_up_(std::move(give_up)),
        streams_(device.streams()),
        model_inputs_(encoding.inputs().size()) {}
  ~BatchFeed() {
    if (streams_ != nullptr) streams_->drop_staged();
  }
  BatchFeed(const BatchFeed&) = delete;
  BatchFeed& operator=(const BatchFeed&) = delete;

  // Returns the next batch; see Loader::next().
  const data::Batch& next();
  // Ticket for the first micro-batch of the current batch, for Submission::staged; 0 if it was not staged.
  uint64_t staged() const { return staged_; }
  // Throws OutOfMemory if the device had too little memory to stage the current batch.
  void throw_failure();
  // Starts copying the first micro-batch of the next batch to the device, if the loader prefetches. Waits until the
  // loader has assembled that batch, so that the order of copies is the same in every run. `like`: a step of the same
  // kind. If the copy does not fit, throw_failure() reports it once the batch has been taken; work in flight is not
  // affected.
  void stage_next(const backends::Executable& like, const GradAccumulation& accumulation);

 private:
  data::Loader& loader_;
  const std::function<bool()> give_up_;
  backends::DeviceStreams* const streams_;  // null if the device has no streams
  const size_t model_inputs_;
  const data::Batch* next_ = nullptr;  // batch that next_staged_ belongs to
  uint64_t staged_ = 0, next_staged_ = 0;
  std::exception_ptr failure_;
};

}  // namespace runner::train
