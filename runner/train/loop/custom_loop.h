// A hook's own training loop: optimizer steps, batches and updates happen when the hook calls for them.
//
// The hook's operations are recorded into a traced region (TracedRegion), which runs when the next batch is requested
// or at another step mark. So the hook's results do not depend on when the device runs. Logging, evaluation and
// checkpoints follow each optimizer step, as in the declared loop. Rationale:
// docs/decisions/016-custom-training-loops.md.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runner/data/loader.h"
#include "runner/train/loop/hook_tensors.h"
#include "runner/train/loop/train_batches.h"
#include "runner/train/loop/train_loop.h"

namespace runner::train {

class CustomLoop final : public HookTensors {
 public:
  // All arguments must outlive the loop.
  CustomLoop(TrainState& state, Hooks& hooks, TrainLoop& loop);

  // Calls the hook's `train` and returns when it returns or the run ends.
  void run();

  // ---- for the hook ------------------------------------------------------------------------------------------------

  // Loops over epochs; see TrainBatches.
  using Epochs = TrainBatches::Epochs;
  Epochs begin_epochs(std::optional<int64_t> count);
  // Ends the region.
  std::optional<int64_t> next_epoch(const Epochs& epochs);
  void end_epochs() { training_.end_epochs(); }

  int64_t count_batches(Split split) const override;
  // The training batches are those that remain of the current epoch.
  void begin_batches(Split split) override;
  // Overrides data.even_batches while the object exists: whether the last step of an epoch is padded so that all ranks
  // have equally many samples. All ranks must use the same value.
  class EvenBatchesOverride {
   public:
    EvenBatchesOverride(CustomLoop& loop, bool even) : loop_(loop), before_(loop.set_even_batches(even)) {}
    ~EvenBatchesOverride() { loop_.set_even_batches(before_); }
    EvenBatchesOverride(const EvenBatchesOverride&) = delete;
    EvenBatchesOverride& operator=(const EvenBatchesOverride&) = delete;

   private:
    CustomLoop& loop_;
    const std::optional<bool> before_;
  };
  std::optional<int64_t> next_batch(Split split) override;
  using HookTensors::inputs;
  const StepInputs& inputs(int64_t batch) override;

  // Whether the optimizers step at this batch, because it is the last of its optimizer step.
  bool sync_gradients() const;
  void backward(Value loss);
  Value clip_grad_norm(std::optional<int32_t> optimizer, double limit);  // unset if no optimizer steps at this batch
  void clip_grad_value(std::optional<int32_t> optimizer, double limit);
  const std::vector<std::string>& optimizers() const { return trainer_.optimizers().names; }
  void step(int32_t optimizer);
  void zero_grad(int32_t optimizer);
  // The learning rate under the schedule. rate() and step_was_skipped() may have to read a value, if the last update
  // may be skipped and has not run yet.
  double rate(int32_t optimizer);
  bool step_was_skipped();  // whether the last step was skipped
  void step_schedule();     // advances the schedule unless the last step was skipped

  // Whether there is a current training batch. Points then belong to the end of its optimizer step.
  bool in_step() const { return training_.current().batch != nullptr; }
  using HookTensors::log;
  void log(const std::string& name, double value);
  // For differences: seconds of a monotonic clock, Programs run, and how many of them had to be compiled.
  struct Cost {
    double seconds = 0;
    int64_t runs = 0, compiled = 0;
  };
  Cost cost() const;
  void save(const std::string& name = {});  // after the optimizer step; `name`: of the checkpoint, or empty
  void load_model(const nn::WeightSource& source) override;
  void load(const std::string& state);  // drops the region; see Callback::on_load_state()
  // Call if the hook's loop may return before the last step of the run. Without it, that is an error.
  void allow_early_return() { may_return_early_ = true; }

 private:
  // The optimizer step in progress.
  struct OpenStep {
    std::optional<StepStart> start;  // none if there is no batch
    StepResult result;               // from batches that are over
    bool losses = false;             // some losses are in no point yet
    bool untouched = true;           // nothing has been updated
    bool overflowed = false;         // the loss scaler has skipped a step
    std::optional<double> rate;      // of the last step
    std::optional<NotFinite> found;  // on this rank
    int64_t samples = 0;             // of all batches, including those to come
  };
  // State of the current training batch.
  struct BatchState {
    bool counted = false;       // in train/loss
    std::vector<bool> stepped;  // by optimizer
  };
  HookBatch training() const override { return training_.current(); }
  void require_region() override;
  void begin_region() override;
  void end_region() override;
  void run_region();
  void reduce(std::optional<int32_t> optimizer);
  void reduce_at_end();
  bool take_steps();
  void add_to_call_digest(std::initializer_list<uint64_t> words);
  void note_not_finite();
  void skip_step();
  void end_batch();
  std::optional<bool> set_even_batches(std::optional<bool> even);
  std::optional<int64_t> next_train_batch();
  void leave_evaluation();
  void drop_step();
  std::vector<bool> held_parameters() const;
  data::Position position() const;
  void leave_epoch();
  void skip_to(int64_t epoch);
  double base_rate(int32_t optimizer) const;
  int64_t scheduled();
  bool may_skip() const;
  void end_left_batch();
  void stop_where_interrupted();
  [[noreturn]] void stop();

  backends::ProcessGroup* const ranks_;  // ranks that add up their gradients; null for a single process
  const std::vector<Shard> shards_;      // of those ranks
  TrainLoop& loop_;
  TrainBatches training_;
  OpenStep open_step_;
  std::vector<bool> reached_;  // by ParameterId: whether the gradients held depend on it, on this rank
  BatchState batch_state_;
  // First one on any rank. Searched for only once, because it is slow.
  std::optional<NotFinite> not_finite_;
  bool warned_of_even_batches_ = false;
  bool stopped_ = false;  // the run ended before the hook's loop did
  bool may_return_early_ = false;
};

}  // namespace runner::train
