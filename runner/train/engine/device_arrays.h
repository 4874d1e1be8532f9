// The arrays of a DeviceLayout on a device, as one rank sees them: weights, optimizer slots, gradients, sums.
//
// Ranks of a host that update together share one copy of weights and slots (shard.h). The first of them writes it from
// the host; the others may read it after the next barrier. Gradients and sums belong to each rank. Reads and writes
// take place after everything that was submitted to the device before. Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backends/device_model/modelled_device.h"
#include "backends/dist/process_group.h"
#include "backends/runtime/arena.h"
#include "runner/model/initial_weights.h"
#include "runner/train/engine/bucket_reducer.h"
#include "runner/train/engine/memory_use.h"
#include "runner/train/engine/overlapped_reducer.h"
#include "runner/train/engine/rounded_weights.h"
#include "runner/train/step/device_layout.h"
#include "runner/train/step/factored_gradients.h"
#include "runner/train/step/gradient_buckets.h"
#include "runner/train/step/gradients.h"
#include "runner/train/step/shard.h"
#include "runner/train/step/step_builder.h"

namespace runner::train {

// Whether allocate() initialises the weights and the buffers of a model; kNone: a checkpoint is restored next.
enum class FirstWeights { kInitial, kNone };

class DeviceArrays {
 public:
  // Allocates nothing. `ranks`: process group, or null for a single process. `together`: the ranks update weights
  // together, and share one copy of them if they have symmetric memory. Throws Error(kData) if model.init_from or
  // model.pretrained does not fit the model. All arguments must outlive the object.
  DeviceArrays(const StepBuilder& builder, backends::ModelledDevice& device, backends::ProcessGroup* ranks,
               bool together);

  // What became of the tensors of model.pretrained; null without it.
  const nn::LoadReport* load_report() const { return weights_.report(); }
  // Allocates the arrays and writes their first contents. Collective if there is one copy. `halt`: called before each
  // parameter is initialised; may throw. Throws Error(kRun) if the device has too little memory.
  void allocate(FirstWeights weights, const std::function<void()>& halt);
  // Allocates the arrays that the layout has gained since allocate(). For a single rank only.
  void allocate_added();

  const DeviceLayout& layout() const { return layout_; }
  // This rank's shard, if the ranks update weights together: of the copy of its host. With SumSource::kAllReduce it
  // updates all of its own copy.
  const std::optional<Shard>& shard() const { return shard_; }
  // Whether the ranks of this host share one copy of weights and slots.
  bool are_shared() const { return sharing_ranks_ != nullptr; }
  // Where the step that adds up gradients finds them, unless reducer() has added them up.
  SumSource sum_source() const;
  // Layout of the factored gradients for a batch whose largest part on any rank has `largest` samples; null if
  // gradients travel in their arrays.
  const FactoredLayout* factored_layout(int64_t largest) { return factored_ ? factored_->layout(largest) : nullptr; }
  // Prepares a batch. Returns the layout of its factored gradients after allocating them, or null if gradients travel
  // in their arrays. Collective. Throws Error(kRun) if memory is exhausted.
  const FactoredLayout* begin_batch(int64_t largest, bool may_factor);

  // Buckets in which GPUs that share nothing would reduce gradients during the backward pass; null if gradients are
  // reduced at the end of the optimizer step.
  const GradientBuckets* buckets() const { return buckets_ ? &*buckets_ : nullptr; }
  // Reduces in buckets on this device; null if there is at most one bucket, so that the update adds up the gradients.
  BucketReducer* reducer() { return reducer_ ? &*reducer_ : nullptr; }
  // Reduces between hosts during the backward pass; null if the update does it. Exists after allocate().
  OverlappedReducer* overlapped_reducer() { return overlapped_ ? &*overlapped_ : nullptr; }
  // Call after BucketReducer::begin_signals() or signal_all().
  void reduce(const FactoredLayout* factored) { reducer_->reduce(factored, factored_of_all(factored)); }

  // ---- contents ----

  // Reads an array by its index in the layout. Device models of graphs do not see reads and writes; code that saves or
  // loads a checkpoint must call Trainer::on_host_event(kStateUse).

  std::vector<std::byte> read(int32_t array) const;
  // Reads from byte `offset` on.
  void read(int32_t array, size_t offset, std::span<std::byte> target) const;
  // See backends::Device.
  bool has_views() const { return device_.has_views(); }
  std::span<const std::byte> view(int32_t array) const { return device_.view(*arrays_[static_cast<size_t>(array)]); }
  // Does nothing if another rank writes this array.
  void write(int32_t array, std::span<const std::byte> contents);
  bool writes(const DeviceArray& array) const;

  // Replaces the weights and the buffers of the model, and the averages that evaluations use. Collective if the ranks
  // share one copy.
  void write_weights(const nn::InitialWeights& weights, const backends::Site& site);

  // Gives all ranks the buffers of rank 0, and their averages. Call before they are read in an evaluation: in training
  // each rank moves its own. Collective; does nothing for a single process or a model without buffers.
  void share_buffers(const backends::Site& site);

  // While the returned object exists, the device model ignores reads and writes.
  backends::ModelPause pause_model() const { return backends::ModelPause(device_); }

  // {Σ loss, Σ weight} of this rank's optimizer steps since the last call of take_logged_sums(), which resets them.
  std::array<double, 2> logged_sums() const;
  std::array<double, 2> take_logged_sums();
  void set_logged_sums(const std::array<double, 2>& sums);

  // ---- gradients ---- Which gradients exist, by flat buffer.

  // Contents of the gradient array of each flat buffer between two traced regions, or between two calls of
  // Stepper::advance(). After an optimizer step, kLocalSum only with Trainer::accumulating_ranks() and a hook's loop.
  const std::vector<GradientState>& gradients() const { return gradients_; }
  void set_gradients(std::vector<GradientState> held);
  // Sets the same value for all trained buffers.
  void hold(GradientState held);
  bool holds_gradients(int32_t buffer) const {
    return gradients_[static_cast<size_t>(buffer)] != GradientState::kNothing;
  }
  bool holds_any_gradients() const;
  // Whether gradients are still to be reduced over ranks.
  bool holds_sums_of_rank() const;
  // Whether an array has one element per parameter element of its buffer and its contents are valid.
  bool is_of_parameters(const DeviceArray& array) const;

  // ---- for Programs ---- Buffers in the order in which Programs declare their states.

  // States of any step; of a training step, which may send factored gradients; and of record_reduction(), which may
  // read them. Valid until the next call.
  std::span<backends::Buffer* const> states() const { return states_; }
  std::span<backends::Buffer* const> states_of_step(bool writes_factored);
  std::span<backends::Buffer* const> states_of_reduction(SumSource source, bool reads_factored);
  // With SumSource::kFoldedRows: sums this rank's shard of the gradients of all ranks. Call after a barrier.
  void fold_rows();
  // Declares the rounded weights as the last states of a training step, if there are any.
  void declare_rounded_weights(backends::Program& step) const;

  // Writes zeros for a rank that had no batch in this optimizer step. `factored`: layout of the factored gradients, or
  // null if gradients travel in their arrays.
  void clear_step(const FactoredLayout* factored);
  // Rounds the shard that this rank has updated. Call before other ranks read it.
  void round_shard();

  // ---- memory ---- Of this rank, in bytes.

  // Returns the memory of the arrays.
  MemoryUse memory() const;
  // Returns the sizes of all arrays as on a device that shares nothing.
  std::vector<backends::ArrayBytes> sizes() const;
  // Returns how much memory a process may use in addition to the arrays; none if there is no limit or the device
  // reports exhaustion itself. Throws Error(kRun) if the arrays themselves exceed the limit.
  std::optional<int64_t> memory_left() const;
  // Throws Error(kRun) if the machine has too little memory for the arrays and the `temporary` memory of a step, in all
  // processes. Only rank 0 checks.
  void check_machine_memory(int64_t temporary) const;

 private:
  std::span<const std::shared_ptr<backends::Buffer>> factored_of_all(const FactoredLayout* factored) const;
  bool rounds_weights() const { return are_shared() && device_.rounds_operands(); }
  // This rank's shard of the gradients of all ranks, and its sum.
  struct FoldedRows {
    size_t array;  // in the layout
    size_t first;  // byte of the array
    std::shared_ptr<backends::Arena> sum;
    std::shared_ptr<backends::Buffer> buffer;  // the same memory
  };

  bool reduces_between_hosts() const { return shard_ && sum_source() == SumSource::kReducedInPlace; }
  void share_updates();
  std::shared_ptr<backends::Buffer> allocated(const DeviceArray& array);
  OverlappedReducer::Gradients gradients_of_rank() const;
  void allocate_sums();
  void announce() const;
  void write_initial_values();
  void write_initial_weights(const std::function<void()>& halt);
  // `values_of`: writes the values of the elements of a parameter from `begin` on.
  using ValuesOf = std::function<void(const nn::Parameter& parameter, std::span<float> values, int64_t begin)>;
  void write_parameters(const ValuesOf& values_of);
  // `weights`: without a value of a buffer, it gets its initial value.
  void write_buffers(const nn::InitialWeights& weights);
  void write_initial_qs();
  void take_gradients();
  void write_bytes(int32_t array, size_t offset, std::span<const std::byte> contents);

  const StepBuilder& builder_;
  const DeviceLayout& layout_;
  const nn::ParameterSet& parameters_;
  backends::ModelledDevice& device_;
  backends::ProcessGroup* const ranks_;
  const nn::InitialWeights weights_;
  std::optional<Shard> shard_;
  backends::ProcessGroup* sharing_ranks_ = nullptr;  // share the copy of weights and slots; null: this rank has its own
  std::vector<std::shared_ptr<backends::Buffer>> arrays_, reduction_arrays_;  // see SharedArrays
  std::vector<backends::Buffer*> states_, reduction_states_;                  // pointers into them
  // See SharedArrays. With SumSource::kReducedInPlace, of a host with one rank: where the gradients are.
  std::vector<SharedRows> rows_;
  std::vector<FoldedRows> folded_;    // only with SumSource::kFoldedRows
  bool has_taken_gradients_ = false;  // whether the reserved gradient rows have been committed
  std::optional<FactoredGradients> factored_;
  std::optional<GradientBuckets> buckets_;
  // DDP's bucket copies of gradients, for the device model only.
  std::vector<std::shared_ptr<backends::Buffer>> buckets_of_device_;
  std::optional<BucketReducer> reducer_;
  std::optional<OverlappedReducer> overlapped_;
  std::optional<RoundedWeights> rounded_;
  std::vector<backends::Buffer*>
      joined_states_;                     // states of one submission, with factored gradients and rounded weights
  std::vector<GradientState> gradients_;  // by flat buffer
};

}  // namespace runner::train
