// The messages of replicas (gradient_message.h): how they are laid out, and the memory in which all read them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "backends/backend.h"
#include "backends/collectives/collectives.h"
#include "runner/train/step/gradient_message.h"
#include "runner/train/step/step_builder.h"

namespace runner::train {

// Whether gradients may travel so where a window is one batch, which hooks decide while it trains: as they are, of a
// step that is the same for each batch.
bool may_send_messages(const schema::Recipe& recipe, const StepBuilder& builder);

class Messages {
 public:
  // All arguments must outlive it.
  Messages(const StepBuilder& builder, backends::Device& device, backends::Collectives& ranks);

  // Of batches of which the replica with most has so many samples, the same object each time.  Null: gradients stay in
  // their arrays.
  const MessageLayout* layout(int64_t largest);
  // The same for the next batch, called by all replicas together: there is room for it.  A message takes at most half
  // of the gradients that it stands for, whose arrays are untouched as long as windows are of one batch: so nobody
  // counts its memory.
  const MessageLayout* begin_batch(int64_t largest);

  // The state of a step that sends one, and those of a window's end where all are read.
  backends::Buffer& mine() const { return *of_rank_[static_cast<size_t>(ranks_.rank())]; }
  std::span<const std::shared_ptr<backends::Buffer>> of_all_ranks() const { return of_rank_; }
  // A replica without samples has nothing to say.
  void send_nothing(const MessageLayout& layout);

 private:
  void make_room(int64_t elements);

  const StepBuilder& builder_;
  backends::Device& device_;
  backends::Collectives& ranks_;
  std::map<int64_t, MessageLayout> layouts_;
  int64_t room_ = 0;  // floats of each message
  std::vector<std::shared_ptr<backends::Buffer>> of_rank_;
};

}  // namespace runner::train
