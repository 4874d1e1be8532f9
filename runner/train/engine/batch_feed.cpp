#include "runner/train/engine/batch_feed.h"

#include <utility>

#include "backends/exec/backend.h"
#include "runner/train/engine/step_arguments.h"

namespace runner::train {

const data::Batch& BatchFeed::next() {
  const data::Batch& batch = loader_.next();
  staged_ = std::exchange(next_, nullptr) == &batch ? next_staged_ : 0;
  return batch;
}

void BatchFeed::throw_failure() {
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void BatchFeed::stage_next(const backends::Executable& like, const GradAccumulation& accumulation) {
  if (streams_ == nullptr || next_ != nullptr) return;
  const data::Batch* const batch = loader_.peek(give_up_);
  if (batch == nullptr || batch->size == 0) return;
  next_ = batch;
  const data::Batch part = batch->part(0, accumulation.micro_batch(batch->size));
  try {
    next_staged_ = streams_->stage(like, LoadedInputs(part, model_inputs_).all());
  } catch (const backends::OutOfMemory&) {
    next_staged_ = 0;
    failure_ = std::current_exception();
  }
}

}  // namespace runner::train
