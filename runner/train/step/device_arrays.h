// The arrays of a DeviceLayout on a device, as one replica sees them: weights, slots, gradients, sums.
//
// Replicas that update together have one copy of weights and slots (shares.h): rank 0 writes it from the host, and all
// may read it once they have met since.  Gradients and sums are each replica's own.  What is read here, or written,
// comes behind whatever was submitted to the device before.  Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backends/account.h"
#include "backends/backend.h"
#include "backends/collectives/collectives.h"
#include "runner/nn/initial_weights.h"
#include "runner/train/step/bucket_reducer.h"
#include "runner/train/step/device_layout.h"
#include "runner/train/step/gradient_buckets.h"
#include "runner/train/step/gradients.h"
#include "runner/train/step/memory_use.h"
#include "runner/train/step/messages.h"
#include "runner/train/step/rounded_weights.h"
#include "runner/train/step/shares.h"
#include "runner/train/step/step_builder.h"

namespace runner::train {

class DeviceArrays {
 public:
  // Without memory yet.  `ranks`: null, or the replicas; `one_copy`: they update the weights together.  Throws
  // Error(kData) where model.init_from does not fit the model.  All must outlive it.
  DeviceArrays(const StepBuilder& builder, backends::Device& device, backends::Collectives* ranks, bool one_copy);

  // Gives the arrays memory and their initial contents; called by all replicas together where they have one copy.
  // Throws Error(kRun) where the device has not so much.  `halt`: asked before each parameter is drawn, and may throw.
  void allocate(const std::function<void()>& halt);
  // The same for what the layout of this only replica has more since then.
  void allocate_added();

  const DeviceLayout& layout() const { return layout_; }
  // What this replica updates of the one copy; none: it updates all of its own.
  const std::optional<Shares>& shares() const { return shares_; }
  // How gradients travel of batches of which the replica with most has so many samples; null: in their arrays.
  const MessageLayout* message(int64_t largest) { return messages_ ? messages_->layout(largest) : nullptr; }
  // Before a batch whose gradients travel so, called by all replicas together: there is room for them.  Throws
  // Error(kRun) where there is not.
  const MessageLayout* begin_batch(int64_t largest, bool as_message);

  // Those in which GPUs that share nothing reduce gradients while they compute them; null: elsewhere they are reduced
  // at the window's end.
  const GradientBuckets* buckets() const { return buckets_ ? &*buckets_ : nullptr; }
  // Where replicas do so here: of more than one bucket; null: elsewhere the update adds them up.
  BucketReducer* reducer() { return reducer_ ? &*reducer_ : nullptr; }
  // Behind the reducer's signals.
  void reduce(const MessageLayout* message) { reducer_->reduce(message, messages_of_all(message)); }

  // ---- contents ----

  // Of an array by its number in the layout.  A device that keeps account of graphs is not told: who makes a state of
  // what it reads, or puts one there, says so (Trainer::note_state_use).

  std::vector<std::byte> read(int32_t array) const;
  // From byte `offset` on.
  void read(int32_t array, size_t offset, std::span<std::byte> target) const;
  // Does nothing where another replica writes it.
  void write(int32_t array, std::span<const std::byte> contents);
  bool writes(const DeviceArray& array) const;

  // What is read and written while it lives no device of the user's would be asked for.
  backends::Unaccounted unaccounted() const { return backends::Unaccounted(device_); }

  // {Σ loss, Σ weight} of this replica's windows since the last call; the second forgets them.
  std::array<double, 2> take_logged_sums();
  void forget_logged_sums();

  // ---- gradients ----
  // Which of them are there, by flat buffer.

  // What the gradient array of each flat buffer holds between two segments, or two calls of Trainer::advance(); at the
  // end of a window no shares, so that it can be in a state.
  const std::vector<Held>& gradients() const { return gradients_; }
  // Of what one replica holds of all, rank 0 is the one.
  void set_gradients(std::vector<Held> held);
  // The same for all that are trained.
  void hold(Held held);
  bool holds_gradients(int32_t buffer) const { return gradients_[static_cast<size_t>(buffer)] != Held::kNothing; }
  bool holds_any_gradients() const;
  // Whether an array has an element for each of its buffer's parameters that means something now.
  bool is_of_parameters(const DeviceArray& array) const;

  // ---- for Programs ----
  // Buffers, in the order in which Programs declare their states.

  // The states of any step; of a training step, which may send a message; and of the end of a window, where messages
  // may be read.  Valid until the next call.
  std::span<backends::Buffer* const> states() const { return states_; }
  std::span<backends::Buffer* const> states_of_step(bool sends_message);
  std::span<backends::Buffer* const> states_of_window(bool reads_messages);
  // Where the reducer has added up all gradients.
  std::span<backends::Buffer* const> states_of_summed_window();
  // Declares the last of them, as a training step has them: the rounded weights, where there are such.
  void declare_rounded_weights(backends::Program& step) const;

  // This replica has had no batch of a window, in which gradients travel so (null: in their arrays): the others read
  // zeros.
  void clear_window(const MessageLayout* message);
  // It has updated its share; before others read it.
  void round_share();

  // ---- memory ----
  // Of this replica, in bytes.

  // What the arrays take.
  MemoryUse memory() const;
  // Each array that a device has which accounts for itself alone.
  std::vector<backends::ArrayBytes> sizes() const;
  // What a process may have beside them; none: any amount, or the device says itself where it has not so much.  Throws
  // Error(kRun) where they are too large themselves.
  std::optional<int64_t> memory_left() const;

 private:
  std::span<const std::shared_ptr<backends::Buffer>> messages_of_all(const MessageLayout* message) const;
  bool rounds_weights() const { return shares_ && device_.rounds_operands(); }
  void announce() const;
  bool is_local() const;
  void write_initial_values();
  void write_initial_weights(const std::function<void()>& halt);
  void write_initial_qs();
  void take_gradients();
  void write_bytes(int32_t array, size_t offset, std::span<const std::byte> contents);

  const StepBuilder& builder_;
  const DeviceLayout& layout_;
  const nn::ParameterSet& parameters_;
  backends::Device& device_;
  backends::Collectives* const ranks_;
  const nn::InitialWeights weights_;
  std::optional<Shares> shares_;
  std::vector<std::shared_ptr<backends::Buffer>> arrays_, window_arrays_;  // SharedArrays
  std::vector<backends::Buffer*> states_, window_states_;                  // the same
  std::vector<SharedRows> rows_;                                           // the same
  bool has_taken_gradients_ = false;                                       // whose memory was only reserved
  std::optional<Messages> messages_;
  std::optional<GradientBuckets> buckets_;
  std::vector<std::shared_ptr<backends::Buffer>> buckets_of_device_;  // as each real one has them
  std::optional<BucketReducer> reducer_;
  std::optional<RoundedWeights> rounded_;
  std::vector<backends::Buffer*> joined_states_;  // those of an execution, with messages and rounded weights
  std::vector<Held> gradients_;                   // by flat buffer
};

}  // namespace runner::train
