#include "runner/train/step/declared_step.h"

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "backends/ir/ops.h"
#include "runner/train/step/declared_update.h"
#include "runner/train/step/device_rules.h"
#include "runner/train/step/loss_scaler.h"
#include "runner/train/step/step_recorder.h"

namespace runner::train {
namespace {

namespace ops = backends::ops;
using backends::Program;
using backends::ValueId;

// A micro-batch of an optimizer step under construction.
class MicroBatchStep {
 public:
  // `recorded` must outlive the object. `factored`: layout of factored gradients; empty if gradients are in their
  // arrays.
  MicroBatchStep(const StepBuilder& builder, const StepBuilder::Recorded& recorded, FactoredLayout factored = {})
      : builder_(builder),
        recorded_(recorded),
        factored_(std::move(factored)),
        program_(recorded.program),
        step_(builder, program_, array_inputs(program_, builder.layout())) {}

  // `reduces`: the Program reduces gradients and sums over all ranks.
  CompletedStep record(const StepShape& shape, bool reduces = false) {
    move_buffers();
    const Value counted = value(recorded_.counted);
    sums_ =
        loss_and_weight(counted_sum(value(recorded_.losses), counted), counted_sum(value(recorded_.weights), counted));
    std::vector<bool> reached = differentiate(shape);
    if (!shape.first) add_held();
    if (reduces) reduce();
    if (shape.last) {
      record_update(step_, program_, builder_, {.sums = sums_, .first_scalar = builder_.first_scalar()});
    } else {
      step_.keep_gradients();
      step_.arrays.set(sums_, ArrayRole::kSum, 0, kStepSum);
      step_.keep_reached();
    }
    recorded_.output_metrics(program_);
    step_.arrays.output(program_);
    return {std::move(program_), std::move(reached), std::move(step_.rule_numbers), std::move(step_.additions)};
  }

 private:
  Value value(ValueId id) { return {&program_, id}; }

  // Computes the gradients of Σ mask · loss, with the mask as seed. After the first micro-batch of an optimizer step,
  // each gradient is added to the accumulated one. Returns by ParameterId which parameters have gradients.
  std::vector<bool> differentiate(const StepShape& shape) {
    std::vector<Value> parameters;
    for (const ValueId id : recorded_.parameters) parameters.push_back(value(id));
    const Value counted = value(recorded_.counted), scale = scale_of_batch(counted.shape().elements() * shape.parts);
    const Value seed = scale ? ops::mul(counted, scale) : counted;
    std::function<Value(nn::ParameterId)> held;
    if (!shape.first) held = [this](nn::ParameterId id) { return held_gradient(id); };
    Derivative derivative = step_.backward(value(recorded_.losses), seed, scale, parameters, held);
    step_.gradients = std::move(derivative.gradients);
    if (factored_.elements > 0) output(factored_gradients(derivative, factored_));
    return std::move(derivative.reached);
  }

  // The forward pass of each micro-batch moves them, whether or not the optimizer step is applied.
  void move_buffers() {
    for (nn::BufferId id = 0; id < std::ssize(recorded_.buffers); ++id)
      step_.keep_buffer(id, value(recorded_.buffers[static_cast<size_t>(id)]));
  }

  Value held_gradient(nn::ParameterId id) {
    return builder_.parameter(step_.arrays.get(ArrayRole::kGradients, builder_.model().parameters[id].buffer), id);
  }

  // A scaler multiplies the mean over a micro-batch divided by the number of micro-batches, as in PyTorch. Losses are
  // summed here, so the scale is divided by `parts`.
  Value scale_of_batch(int64_t parts) {
    const Value scale = loss_scale(step_.arrays);
    return scale ? ops::div(scale, static_cast<double>(parts)) : scale;
  }

  // Writes the factored gradients to their array instead of the gradient arrays.
  void output(Value factored) {
    const auto state = static_cast<int32_t>(program_.inputs().size());
    program_.input(backends::InputKind::kState, "factored gradients", factored_.type());
    program_.output("factored gradients", factored.id, state);
    std::ranges::fill(step_.gradients, Value());
  }

  // Gradients accumulate in place even if they are not needed later, so that they take no additional memory. Traced
  // code does not have them after the end of an optimizer step.
  void add_held() {
    if (!device_rules(builder_.recipe()).traces_graphs) step_.keep_gradients();
    sums_ = ops::add(step_.arrays.get(ArrayRole::kSum, 0, kStepSum), sums_);
    for (int32_t b = 0; b < std::ssize(step_.reached); ++b)
      if (Value& reached = step_.reached[static_cast<size_t>(b)])
        reached = reached_by_any(std::array{step_.arrays.get(ArrayRole::kUse, b, kReached), reached});
  }

  void reduce() {
    sums_ = ops::all_reduce(sums_, backends::Reduction::kSum, backends::Subject::kLoss);
    step_.all_reduce_gradients();
  }

  const StepBuilder& builder_;
  const StepBuilder::Recorded& recorded_;
  const FactoredLayout factored_;
  Program program_;
  StepRecorder step_;
  Value sums_;  // (2) f64, {Σ loss, Σ weight} of the optimizer step so far
};

}  // namespace

FactoredLayout factored_layout(const StepBuilder& builder, const StepBuilder::Recorded& recorded) {
  const nn::ParameterSet& set = builder.model().parameters;
  Program program = recorded.program;
  std::vector<Value> parameters;
  for (const ValueId id : recorded.parameters) parameters.push_back({&program, id});
  return factored_layout(derivative_of({&program, recorded.losses}, {&program, recorded.counted}, parameters, set),
                         set);
}

CompletedStep complete_step(const StepBuilder& builder, const StepBuilder::Recorded& recorded, const StepShape& shape,
                            const FactoredLayout& factored) {
  return MicroBatchStep(builder, recorded, factored).record(shape);
}

CompletedStep step_graph(const StepBuilder& builder, const StepBuilder::Recorded& recorded, StepShape shape,
                         bool closes_step) {
  shape.last |= closes_step;
  return MicroBatchStep(builder, recorded).record(shape, /*reduces=*/closes_step);
}

}  // namespace runner::train
