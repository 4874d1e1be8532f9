#include "runner/train/step/batch_feed.h"

#include <utility>

#include "runner/train/step/step_arguments.h"

namespace runner::train {

const data::Batch& BatchFeed::next() {
  const data::Batch& batch = loader_.next();
  staged_ = std::exchange(next_, nullptr) == &batch ? next_staged_ : 0;
  return batch;
}

void BatchFeed::stage_next(const backends::Executable& like, const WindowParts& parts) {
  if (streams_ == nullptr || next_ != nullptr) return;
  const data::Batch* const batch = loader_.peek(give_up_);
  if (batch == nullptr || batch->size == 0) return;
  next_staged_ = streams_->stage(like, inputs_of(batch->part(0, parts.at_once(batch->size)), encoding_));
  next_ = batch;
}

}  // namespace runner::train
