// A traced region of a hook's training loop, from one mark_step to the next, under construction.
//
// The loop sees parameters, gradients and optimizer slots as mutable; the region records their new values. After its
// Program has run, every changed array on the device has its new contents. A loss that is not finite cancels the
// updates after it, on all ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runner/train/step/gradients.h"
#include "runner/train/step/host_tensor.h"
#include "runner/train/step/not_finite.h"
#include "runner/train/step/optimizer_step.h"
#include "runner/train/step/step_builder.h"
#include "runner/train/step/step_hooks.h"
#include "runner/train/step/step_recorder.h"

namespace runner::train {

class TracedRegion {
 public:
  struct RegionOptions {
    std::optional<data::BatchShape> batch = {};  // none if it has no batch
    bool padded = false;  // whether samples of this batch, or of that of another rank in this step, are padding
    std::optional<nn::CountedSamples> counted = {};  // see StepBuilder::counted_in()
    bool training = true;
    std::vector<GradientState> gradients = {};  // by flat buffer
    std::vector<bool> reached = {};  // by ParameterId: whether these gradients depend on the parameter, on this rank
    bool losses = false;             // losses of the optimizer step have been summed since the last train/loss point
    bool voided = false;             // an earlier loss of the optimizer step was not finite: no updates are applied
    int64_t accumulation = 1;        // batches per optimizer step
    std::optional<int> rank = {};    // rank in the process group; none for a single process
    std::span<const Shard> shards = {};  // shards of all ranks; must outlive the region
  };
  TracedRegion(const StepBuilder& builder, RegionOptions options);
  TracedRegion(const TracedRegion&) = delete;
  TracedRegion& operator=(const TracedRegion&) = delete;

  StepInputs& inputs() { return inputs_; }
  // Adds a tensor with these contents as an input.
  Value give(HostTensor tensor);
  const backends::Program& program() const { return program_; }

  // Adds the gradients of share · loss. loss: (), or (B, …), which is summed over the samples without padding. Adds
  // that sum, or samples · loss, to train/loss; `counted` is added to the sum that it is divided by.
  void backward(Value loss, double share, double samples, double counted);
  // All-reduces the gradients of an optimizer (none: of all), losses and whether they are finite. Required before the
  // gradients are used.
  void reduce(std::optional<int32_t> optimizer = {});
  // All-reduces losses and whether they are finite. Required at the end of the last batch of an optimizer step.
  void reduce_losses();
  // Names of parameters of an optimizer that have gradients although no loss on this rank depends on them: "2.weight".
  std::string unused(int32_t optimizer) const;
  // Scales the gradients of an optimizer (none: of all) so that their norm is at most `limit`. Returns the norm before
  // clipping, () f32.
  Value clip_grad_norm(std::optional<int32_t> optimizer, double limit);
  void clip_grad_value(std::optional<int32_t> optimizer, double limit);
  // Records one update of an optimizer's parameters. rates(ahead): rates of the schedule `ahead` steps after its
  // current position if all updates of this region are applied. `number`: number of the update, from 1, in the same
  // case.
  void step(int32_t optimizer, const std::function<ScheduleRates(int64_t ahead)>& rates, int64_t number);
  void zero_grad(int32_t optimizer);
  // Whether the last step of an optimizer in this region was applied, () bool; unset if there was none.
  Value applied() const { return step_.applied; }
  // Advances the schedule by `steps` if the last update is applied.
  void step_schedule(int64_t steps);
  // Records a number for the loop to read after the region has run.
  void log(std::string name, Value scalar);

  // ---- at the end ----

  struct Step {
    int32_t optimizer;
    Value applied;          // () bool
    int64_t scheduled = 0;  // schedule steps taken with it
    int output = -1;        // index of the output `applied`
  };
  struct Logged {
    std::string name;
    int output;  // () f64
  };
  // Declares the outputs. Nothing can be recorded afterwards.
  void finish();
  bool does_something() const { return !program_.outputs().empty(); }
  // Output indices, () bool, or −1 if there is none: whether the losses of this rank are finite, and whether the
  // reduced losses, which are the same on all ranks, are finite.
  int own_finite_output() const { return own_finite_output_; }
  int finite_output() const { return finite_output_; }
  // Number of collectives in the region.
  int64_t collectives() const;
  const std::vector<Step>& steps() const { return steps_; }
  const std::vector<Logged>& logged() const { return logged_; }
  // Additions to gradients that this rank has accumulated in earlier batches.
  const std::vector<GradientAddition>& additions() const { return step_.additions; }
  // Additions of this rank, as rank 0, to sums over all ranks.
  const std::vector<RankZeroAddition>& of_rank_0() const { return of_rank_0_; }
  // Numbers passed to the Program by the hook and by the region itself.
  const nn::HostValues& host() const { return host_; }
  // With device-side counters: rates by the number of schedule steps in this region.
  const std::vector<ScheduleRates>& rates() const { return rates_; }
  // State at the end of the region.
  std::vector<GradientState> gradients() const;
  const std::vector<bool>& reached() const { return reached_; }
  bool is_training() const { return options_.training; }
  bool losses() const { return static_cast<bool>(losses_); }
  // The forward pass up to the last loss, on the original parameters.
  ForwardPass forward_pass() const;

 private:
  void add_gradient(size_t buffer, Value added);
  Value over_all(Value share, backends::Subject subject, backends::Reduction reduction = backends::Reduction::kSum);
  Value sum_of_gradients(int32_t buffer, Value share);
  // Replaces each gradient of an optimizer (none: of all) by change(gradient).
  template <class Change>
  void change_gradients(std::optional<int32_t> optimizer, const Change& change);
  Value scalar(std::string name, double value);
  void trace_from(size_t first, Value node);
  void refuse_stale(Value loss) const;
  void keep_buffers();
  void update(int32_t buffer, const StepRecorder::RuleInputs& inputs);
  std::vector<Value> scalar_inputs(const OptimizerGroup& group, const ScheduleRates& rates, int64_t number);
  Gradients gradients_of_optimizer(std::optional<int32_t> optimizer) const;
  int add_output(std::string name, Value value);

  const StepBuilder& builder_;
  const RegionOptions options_;
  backends::Program program_;
  StepFrame frame_;  // its parameters have their current values
  StepRecorder step_;
  std::vector<backends::ValueId> outdated_;  // parameters as they were before an update
  std::vector<RankZeroAddition> of_rank_0_;
  std::vector<bool> unreduced_;  // by flat buffer: the gradient is still to be reduced
  std::vector<bool> reached_;    // see RegionOptions::reached
  nn::HostValues host_;
  nn::ForwardContext forward_;
  StepInputs inputs_;
  std::vector<ScheduleRates> rates_;
  int64_t moves_ = 0;  // upper bound of the schedule steps
  std::vector<backends::ValueId> first_parameters_;
  backends::ValueId loss_end_ = 0;  // end of the last sum of losses
  Value losses_;                    // (2) f64, {Σ loss, Σ weight} since the last train/loss point; unset if none
  Value losses_finite_;             // of this rank in this region; unset if there are no losses
  bool reduced_ = false;
  mutable int64_t collectives_ = 0;  // among the first `scanned_` nodes
  mutable backends::ValueId scanned_ = 0;
  std::vector<std::pair<std::string, Value>> requested_;
  int own_finite_output_ = -1, finite_output_ = -1;
  std::vector<Step> steps_;
  std::vector<Logged> logged_;
};

}  // namespace runner::train
