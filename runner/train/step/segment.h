// What a loop of a hook's computes between two cuts, under construction.
//
// The loop sees parameters, gradients and optimizer slots as things that change; the Segment records what they become,
// and when its Program has run every array on the device that has changed holds its new contents.  A loss that is not
// finite voids the updates behind it, on all replicas.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runner/train/replicas/host_tensor.h"
#include "runner/train/step/gradients.h"
#include "runner/train/step/hooks.h"
#include "runner/train/step/not_finite.h"
#include "runner/train/step/parameter_use.h"
#include "runner/train/step/step_builder.h"
#include "runner/train/step/step_completion.h"
#include "runner/train/step/window.h"

namespace runner::train {

class Segment {
 public:
  struct Beginning {
    std::optional<int64_t> batch = {};  // samples of the batch that it works on; none: there is no batch
    bool training = true;
    std::vector<Held> gradients = {};     // by flat buffer
    std::vector<bool> reached = {};       // by ParameterId: by what these gradients are of, on this replica
    bool losses = false;                  // the window's sum holds losses that are in no point yet
    bool voided = false;                  // a loss of the window was not finite before: nothing is updated
    int64_t accumulation = 1;             // batches of a window
    std::optional<int> rank = {};         // among replicas; none: this is the only one
    std::span<const Shares> shares = {};  // of all of them, which must outlive the segment
  };
  Segment(const StepBuilder& builder, Beginning beginning);
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  StepInputs& inputs() { return inputs_; }
  // A tensor with these contents.
  Value give(HostTensor tensor);
  const backends::Program& program() const { return program_; }

  // Adds the gradients of share · loss.  loss: (), or (B, …) of which the sum over the samples counts, padding
  // excluded.  train/loss gets that sum, or samples · loss, to be divided by the sum of `counted`.
  void backward(Value loss, double share, double samples, double counted);
  // What replicas have added up becomes the sum over all of them: gradients, losses, and whether those are finite.
  // Before anything that uses gradients, and at the end of the last batch of a window.
  void reduce();
  // Parameters of an optimizer that have gradients although no loss on this replica depends on them, "2.weight".
  std::string unused(int32_t optimizer) const;
  // Norm of the gradients of an optimizer (none: of all) before clipping, () f32; they are scaled so that it is at most
  // `limit`.
  Value clip_grad_norm(std::optional<int32_t> optimizer, double limit);
  void clip_grad_value(std::optional<int32_t> optimizer, double limit);
  // One update of an optimizer's parameters.  rates(ahead): those of the schedule, `ahead` steps on from where it is if
  // all updates of this segment are applied; number: that of the update, from 1, in the same case.
  void step(int32_t optimizer, const std::function<WindowRates(int64_t ahead)>& rates, int64_t number);
  void zero_grad(int32_t optimizer);
  // Whether the last step of an optimizer in this segment was applied, () bool; unset: there was none.
  Value applied() const { return applied_; }
  // The schedule moves on with that step.
  void step_schedule(int64_t steps);
  // A number that the loop wants to see when the segment has run.
  void log(std::string name, Value scalar);

  // ---- at the end ----

  struct Step {
    int32_t optimizer;
    Value applied;          // () bool
    int64_t scheduled = 0;  // steps that the schedule moves on with it
    int output = -1;        // `applied`
  };
  struct Logged {
    std::string name;
    int output;  // () f64
  };
  // Declares the outputs; nothing can be recorded any more.
  void finish();
  bool does_something() const { return !program_.outputs().empty(); }
  // () bool, −1: nothing of the kind.  Whether the losses of this replica are finite, and whether what has been
  // reduced, and so is the same for all, is.
  int own_finite_output() const { return own_finite_output_; }
  int finite_output() const { return finite_output_; }
  // How often other replicas take part in what is recorded.
  int64_t meetings() const { return meetings_; }
  const std::vector<Step>& steps() const { return steps_; }
  const std::vector<Logged>& logged() const { return logged_; }
  // What this replica has added to sums over all of them, as rank 0.
  const std::vector<OfRank0>& of_rank_0() const { return of_rank_0_; }
  // Numbers of the hook's among those that the segment itself hands over.
  const nn::HostValues& host() const { return host_; }
  // Where the device counts: those of the schedule, by how often it has moved in this segment.
  const std::vector<WindowRates>& rates() const { return rates_; }
  // Afterwards.
  std::vector<Held> gradients() const;
  const std::vector<bool>& reached() const { return reached_; }
  bool losses() const { return static_cast<bool>(losses_); }
  // Up to the newest loss, on the parameters as they were before.
  ForwardPass forward_pass() const;

 private:
  int32_t buffers() const { return static_cast<int32_t>(gradients_.size()); }
  int32_t group_of(int32_t buffer) const;
  void add_gradient(size_t buffer, Value added);
  void note_reached(const std::vector<bool>& reached);
  Value over_all(Value share, backends::Subject subject, backends::Reduction reduction = backends::Reduction::kSum);
  Value sum_of_gradients(int32_t buffer, Value share);
  bool is_of(int32_t buffer, std::optional<int32_t> optimizer) const;
  Value scalar(std::string name, double value);
  void trace_from(size_t first, Value node);
  void refuse_stale(Value loss) const;
  void decide_step(int32_t optimizer);
  void update(int32_t buffer, const UpdateTerms& terms);
  std::vector<Value> scalar_inputs(const OptimizerGroup& group, const WindowRates& rates, int64_t number);
  Gradients gradients_of_optimizer(std::optional<int32_t> optimizer) const;
  void keep(Value value, Role role, int32_t buffer, int32_t index);
  int add_output(std::string name, Value value);

  const StepBuilder& builder_;
  const Beginning beginning_;
  backends::Program program_;
  StepFrame frame_;  // its parameters are what they are now
  ArrayValues arrays_;
  std::vector<backends::ValueId> outdated_;  // parameters before an update
  Gradients gradients_;
  std::vector<OfRank0> of_rank_0_;
  std::vector<bool> shares_;          // by flat buffer: the gradient is still to be reduced
  std::vector<bool> reached_;         // as Beginning's
  ReachedParameters reached_values_;  // by any replica, joined as gradients are; with comm.unused: skip
  nn::HostValues host_;
  nn::Forward forward_;
  StepInputs inputs_;
  std::vector<WindowRates> rates_;
  int64_t moves_ = 0;  // of the schedule, at most
  std::vector<backends::ValueId> first_parameters_;
  backends::ValueId loss_end_ = 0;  // behind the newest sum of losses
  Value losses_;                    // (2) f64, {Σ loss, Σ weight} in no point yet; unset: none
  Value losses_finite_;             // of this replica, in this segment; unset: there are none
  Value finite_;                    // of what has been reduced; unset: nothing can be infinite so far
  bool reduced_ = false;
  int64_t meetings_ = 0;
  Value applied_;  // of the newest step
  std::vector<std::pair<std::string, Value>> wanted_;
  int own_finite_output_ = -1, finite_output_ = -1;
  std::vector<Step> steps_;
  std::vector<Logged> logged_;
};

}  // namespace runner::train
