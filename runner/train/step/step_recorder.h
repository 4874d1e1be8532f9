// Records the parts of a training step: backward pass, decision whether updates are applied, updates, sums of losses.
//
// Every training step is made of them: the steps that a recipe declares (declared_step.h) and the traced regions of a
// hook's training loop (traced_region.h).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "backends/ir/program.h"
#include "runner/train/step/array_values.h"
#include "runner/train/step/gradients.h"
#include "runner/train/step/lost_gradient.h"
#include "runner/train/step/parameter_use.h"
#include "runner/train/step/step_builder.h"

namespace runner::train {

// loss_and_weight() stacks two () tensors into (2) f64; element() returns element `index` of it, ().
Value loss_and_weight(Value loss, Value weight);
Value element(Value sums, int64_t index);
// Σ counted · value, as engine bookkeeping.
Value counted_sum(Value values, Value counted);

// Values of the arrays of a layout, which a Program declares first.
std::vector<Value> array_inputs(backends::Program& program, const DeviceLayout& layout);

class StepRecorder {
 public:
  // `program` declares the arrays of the layout first. `arrays`: their values, in the order of the layout. Both
  // references must outlive the object.
  StepRecorder(const StepBuilder& builder, backends::Program& program, std::vector<Value> arrays);
  StepRecorder(const StepRecorder&) = delete;
  StepRecorder& operator=(const StepRecorder&) = delete;

  // Returns the gradients of Σ losses · seed. `scale`: the factor of the seed to divide out of them (loss_scaler.h), or
  // unset. `held`: if not empty, each complete gradient of a parameter is added to held(id), so that at most one
  // gradient is stored additionally. With comm.unused: skip, adds the parameters that it reaches to `reached`.
  Derivative backward(Value losses, Value seed, Value scale, std::span<const Value> parameters,
                      const std::function<Value(nn::ParameterId)>& held = {});

  // Decides whether the next updates are applied: if `finite` holds, and if the gradients are finite, provided that the
  // recipe checks them. `gradients_are_finite`: returns () bool; called only in that case. Overflowed gradients make
  // the step not finite, unless a loss scaler handles them. They are not applied either if has_weight does not hold,
  // which does not change the loss scale.
  void decide_applied(const std::function<Value()>& gradients_are_finite);

  // Arguments of the rule of a flat buffer: its gradient, (elements) f32, and its scalars, as in optim::scalar_names().
  struct RuleInputs {
    Value gradient;
    std::function<std::vector<Value>()> scalars;  // called only if the host counts updates
  };
  // Updates a flat buffer as decided.
  void update(int32_t buffer, const RuleInputs& inputs);
  // Averages the buffers of the model as the weights are averaged, if the run averages them. `rate`: returns the rate
  // of the present update, () f32; called only if the host counts updates. Call before end_updates().
  void average_buffers(const std::function<Value()>& rate);
  // Ends the updates of some optimizers: counts them, and adjusts the loss scale.
  void end_updates(std::span<const int32_t> optimizers);
  // Reduces all gradients over ranks, as sums.
  void all_reduce_gradients();
  // Write gradients and reached parameters that have changed to their arrays, to be kept after the Program.
  void keep_gradients();
  void keep_reached();
  // Writes a buffer of the model to its array, if it has changed.
  void keep_buffer(nn::BufferId id, Value value) { keep(value, ArrayRole::kBuffer, 0, id); }
  // Adds (2) f64 to the sums for train/loss, unless the step is not finite.
  void add_to_logged(Value sums);

  ArrayValues arrays;
  Gradients gradients;        // not set: no gradient
  ReachedParameters reached;  // by any loss; only with comm.unused: skip
  Value finite;               // () bool: losses, and checked gradients, so far; unset: nothing can be infinite
  Value has_weight;           // () bool: whether any sample has a weight; unset if always
  Value applied;              // () bool: the last decision; unset if always
  std::vector<GradientAddition> additions;           // of backward() with `held`
  std::vector<backends::TracedScalar> rule_numbers;  // constants of a hook's update rules

 private:
  const StepBuilder& builder_;
  backends::Program& program_;
  Value fits_scale_;  // () bool: the last decision without has_weight

  void keep(Value value, ArrayRole role, int32_t buffer, int32_t index);
};

}  // namespace runner::train
