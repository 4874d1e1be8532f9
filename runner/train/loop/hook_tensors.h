// Tensors of a hook outside of the recipe's steps: the traced region that records them, the values that the hook reads
// from it, and batches of the evaluation data.
//
// Base of a hook's training loop (custom_loop.h) and of its events (event_tensors.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "backends/tpu/tpu_device_model.h"
#include "runner/data/loader.h"
#include "runner/train/engine/batch_place.h"
#include "runner/train/loop/eval_batches.h"
#include "runner/train/loop/train_state.h"
#include "runner/train/step/traced_region.h"

namespace runner::train {

enum class Split { kTrain, kEval };

class HookTensors {
 public:
  HookTensors(const HookTensors&) = delete;
  HookTensors& operator=(const HookTensors&) = delete;
  virtual ~HookTensors() = default;

  // Tensors belong to the current traced region. Functions that end it say so and pass the next one to Hooks::record().

  const StepInputs& inputs() { return region().inputs(); }
  // The same. Throws Error(kRun) if `batch` is no longer the current batch.
  virtual const StepInputs& inputs(int64_t batch);
  // Returns the number of batches of an epoch, or of the evaluation data. Throws Error(kRun) if there are none to take.
  virtual int64_t count_batches(Split split) const;
  // Starts a loop over batches, here of the evaluation data. Ends the region.
  virtual void begin_batches(Split split);
  // Takes the next batch of the loop and returns its number. Ends the region.
  virtual std::optional<int64_t> next_batch(Split split);
  // Rows of the current batch. Samples come first, padding after them. None if there is no batch.
  struct Rows {
    int64_t all = 0, samples = 0;
  };
  std::optional<Rows> rows() const;

  const nn::ParameterSet& parameters() const { return trainer_.model().parameters; }

  // Records a point when the region has run.
  void log(const std::string& name, Value value) { region().log(name, value); }
  // give() adds a tensor with these contents to the current region. read() computes the contents of a tensor now.
  Value give(HostTensor tensor) { return region().give(std::move(tensor)); }
  HostTensor read(Value value);
  // Runs the collectives recorded so far in the region. Call before a collective outside of the region.
  void run_pending_collectives();
  void mark_step();  // ends the region
  // Returns the model of an emulated TPU. Throws Error(kRun) for other devices; `what`: the call, for the message.
  const backends::tpu::TpuDeviceModel& tpu(std::string_view what) const;
  // Returns the IR of the operations of the region on which a tensor depends, as PyTorch/XLA prints it. TPU only.
  std::string ir(Value value) const;
  // Replaces the weights of the model. Ends the region. Collective. Throws Error(kData) if the file does not fit the
  // model (InitialWeights), and Error(kRun) if it cannot be used on another rank or contains other weights there.
  virtual void load_model(const nn::WeightSource& source);

 protected:
  // All arguments must outlive the object.
  HookTensors(TrainState& state, Hooks& hooks);

  // The training batch that the hook is at.
  virtual HookBatch training() const { return {}; }
  // The evaluation batch, or else the training batch.
  HookBatch current() const { return in_evaluation() ? eval_.current() : training(); }
  const data::Batch* batch() const { return current().batch; }
  bool in_evaluation() const { return static_cast<bool>(eval_.current()); }
  bool has_region() const { return region_.has_value(); }
  // The current region. Calls require_region() if there is none.
  TracedRegion& region();
  // Begins a region if there is none, or throws Error(kRun).
  virtual void require_region() = 0;
  // begin_region() begins the next region, possibly only when it is needed. end_region() runs the current one.
  virtual void begin_region() = 0;
  virtual void end_region() = 0;

  // Begins a region and passes it to the hook. Sets the options that follow from the current batch.
  void start_region(TracedRegion::RegionOptions options);
  // Runs the region, which is finished.
  void run_program(std::string_view name);
  // Ends the region without running it.
  void drop_region();
  // Runs `work` on the device and adds the current batch to its errors.
  template <class Work>
  auto compute(const Work& work);

  TrainState& state_;
  Session& session_;
  Trainer& trainer_;
  Hooks& hooks_;
  EvalBatches eval_;
  std::optional<bool> even_batches_;  // overrides data.even_batches; none: as in the recipe

 private:
  void count_reading();
  // Throws Error(kRun) unless these are batches of the evaluation data, which the recipe has.
  void check_split(Split split) const;
  nn::InitialWeights read_weights(const nn::WeightSource& source);

  std::optional<TracedRegion> region_;
  int reads_ = 0;                // in this region
  int64_t collectives_run_ = 0;  // collectives of this region that have run
};

template <class Work>
auto HookTensors::compute(const Work& work) {
  if (batch() == nullptr) return work();
  const data::Position& at = batch()->position;
  if (in_evaluation()) return in_batch({BatchPlace::Of::kEvaluation, at.step + 1}, work);
  return in_batch({BatchPlace::Of::kTraining, trainer_.counters.batches, at.epoch}, work);
}

}  // namespace runner::train
