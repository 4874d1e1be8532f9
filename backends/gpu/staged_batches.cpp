#include "backends/gpu/staged_batches.h"

namespace runner::backends::gpu {

uint64_t StagedBatches::stage(const GpuExecutable& like, std::span<const std::span<const std::byte>> inputs) {
  Staged& staged = staged_[++count_ % staged_.size()];
  staged.number = 0;
  streams_.finish(computed_, staged.last_use);
  streams_.finish(*copied_, staged.copied);  // in case no submission has read it
  wanted_.assign(inputs.size(), {});
  for (const BatchRead& read : like.batch_reads())
    if (read.input < inputs.size()) wanted_[read.input] = inputs[read.input];
  staged.failures = streams_.failures();
  staged.copy.set(wanted_);
  staged.copied = launch(staged.copy);
  staged.number = count_;
  return count_;
}

// A lost device copies nothing any more.
void StagedBatches::drop() noexcept {
  for (Staged& staged : staged_) staged.number = 0;
  try {
    streams_.finish(*copied_, copied_->recorded());
  } catch (...) {
  }
}

bool StagedBatches::has(uint64_t number) const {
  const Staged& staged = staged_[number % staged_.size()];
  return number != 0 && staged.number == number && staged.failures == streams_.failures();
}

StagedBatches::Staged* StagedBatches::find(uint64_t number) {
  return has(number) ? &staged_[number % staged_.size()] : nullptr;
}

std::span<const std::byte* const> StagedBatches::bring(const GpuExecutable& step,
                                                       std::span<const std::byte* const> batch, const Staged* staged,
                                                       BatchCopy& copy, StreamKind stream) {
  brought_.assign(batch.begin(), batch.end());
  wanted_.assign(batch.size(), {});
  const Staged* used = nullptr;  // `staged`, if the step reads a part of it
  for (const BatchRead& read : step.batch_reads()) {
    const auto bytes = static_cast<size_t>(read.bytes);
    if (const std::byte* const there = staged != nullptr ? staged->copy.copy_of(read.input, bytes) : nullptr) {
      brought_[read.input] = there;
      used = staged;
    } else {
      wanted_[read.input] = {batch[read.input], bytes};
    }
  }
  copy.set(wanted_);
  for (const BatchRead& read : step.batch_reads())
    if (const std::byte* const there = copy.copy_of(read.input, static_cast<size_t>(read.bytes)))
      brought_[read.input] = there;
  const uint64_t copied = launch(copy);
  if (copy.launches() > 0)
    streams_.wait(stream, *copied_, copied);
  else if (used != nullptr)
    streams_.wait(stream, *copied_, used->copied);
  return brought_;
}

// Returns the count of `copied_` after the copy.
uint64_t StagedBatches::launch(BatchCopy& copy) {
  for (int32_t i = 0; i < copy.launches(); ++i) streams_.launch(StreamKind::kCopyIn, copy, i);
  return copy.launches() > 0 ? streams_.record(StreamKind::kCopyIn, *copied_) : copied_->recorded();
}

}  // namespace runner::backends::gpu
