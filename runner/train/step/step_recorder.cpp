#include "runner/train/step/step_recorder.h"

#include <algorithm>
#include <array>
#include <utility>

#include "backends/ir/ops.h"
#include "runner/train/step/clock_values.h"
#include "runner/train/step/loss_scaler.h"

namespace runner::train {

namespace ops = backends::ops;
using backends::DType;

Value loss_and_weight(Value loss, Value weight) {
  return ops::stack(std::array{ops::cast(loss, DType::kF64), ops::cast(weight, DType::kF64)}, 0);
}

Value element(Value sums, int64_t index) {
  return ops::reshape(ops::slice(sums, 0, index, index + 1), backends::Shape{});
}

Value counted_sum(Value values, Value counted) {
  return ops::sum(ops::on_host(ops::mul(values, counted)));
}

std::vector<Value> array_inputs(backends::Program& program, const DeviceLayout& layout) {
  std::vector<Value> values;
  for (size_t i = 0; i < layout.arrays().size(); ++i) values.push_back(input_value(program, i));
  return values;
}

StepRecorder::StepRecorder(const StepBuilder& builder, backends::Program& program, std::vector<Value> arrays_of_layout)
    : arrays(builder.layout(), std::move(arrays_of_layout)),
      gradients(builder.model().parameters.buffers().size()),
      reached(gradients.size()),
      builder_(builder),
      program_(program) {}

Derivative StepRecorder::backward(Value losses, Value seed, Value scale, std::span<const Value> parameters,
                                  const std::function<Value(nn::ParameterId)>& held) {
  const nn::ParameterSet& set = builder_.model().parameters;
  const auto add_to_held = [&](size_t id, Value gradient) {
    const Value before = held(static_cast<nn::ParameterId>(id)), added = unscaled(gradient, scale);
    const Value sum = ops::add(before, added);
    additions.push_back({before.id, added.id, sum.id});
    return sum;
  };
  Derivative derivative =
      derivative_of(losses, seed, parameters, set, held ? backends::Finish(add_to_held) : backends::Finish());
  if (!held) unscale(derivative.gradients, scale);
  if (skips_unused(arrays)) add_reached(reached, program_, derivative.reached, set);
  return derivative;
}

void StepRecorder::decide_applied(const std::function<Value()>& gradients_are_finite) {
  applied = finite;
  if (!applied && has_clock(arrays)) applied = {&program_, program_.constant(1, {DType::kBool, {}})};
  if (checks_gradients(builder_.recipe())) {
    const Value checked = gradients_are_finite();
    applied = finite ? ops::logical_and(finite, checked) : checked;
    if (!loss_scale(arrays)) finite = applied;
  }
  fits_scale_ = applied;
  if (has_weight) applied = ops::logical_and(applied, has_weight);
}

void StepRecorder::update(int32_t buffer, const RuleInputs& inputs) {
  const Value used = reached[static_cast<size_t>(buffer)];
  const UpdateTerms terms =
      has_clock(arrays) ? clock_terms(arrays, builder_, buffer, used, applied) : UpdateTerms{inputs.scalars(), applied};
  const optim::Rule& rule = builder_.group_of(buffer).rule;
  std::vector<Value> slots;
  const auto count = static_cast<int32_t>(optim::slots(rule).size());
  for (int32_t s = 0; s < count; ++s) slots.push_back(arrays.get(ArrayRole::kSlot, buffer, s));
  optim::Updated now =
      optim::update(rule, arrays.get(ArrayRole::kParameters, buffer), inputs.gradient, slots, terms.scalars);
  arrays.set_if(terms.applied, now.parameters, ArrayRole::kParameters, buffer);
  for (int32_t s = 0; s < count; ++s)
    arrays.set_if(terms.applied, now.slots[static_cast<size_t>(s)], ArrayRole::kSlot, buffer, s);
  rule_numbers.insert(rule_numbers.end(), now.numbers.begin(), now.numbers.end());
}

void StepRecorder::average_buffers(const std::function<Value()>& rate) {
  if (!arrays.has(ArrayRole::kBufferAverage)) return;
  const optim::WeightAverage& average = *builder_.group_of(builder_.flat_buffers_of({}).front()).rule.average;
  const Value now =
      has_clock(arrays)
          ? ops::cast(optim::average_rate(average, next_update(arrays, builder_.averaging_optimizer())), DType::kF32)
          : rate();
  for (nn::BufferId id = 0; id < std::ssize(builder_.model().parameters.model_buffers()); ++id)
    if (!builder_.model().parameters.model_buffer(id).is_count())
      arrays.set_if(
          applied,
          optim::averaged(arrays.get(ArrayRole::kBufferAverage, 0, id), arrays.get(ArrayRole::kBuffer, 0, id), now),
          ArrayRole::kBufferAverage, 0, id);
}

void StepRecorder::end_updates(std::span<const int32_t> optimizers) {
  if (loss_scale(arrays)) update_scale(arrays, builder_.recipe().scaler, fits_scale_);
  if (!has_clock(arrays)) return;
  for (const int32_t optimizer : optimizers) count_update(arrays, optimizer, applied);
  for (int32_t b = 0; b < std::ssize(reached); ++b)
    if (const Value used = reached[static_cast<size_t>(b)];
        used && std::ranges::find(optimizers, builder_.group_of(b).optimizer) != optimizers.end())
      count_update_of_each(arrays, b, used, applied);
}

void StepRecorder::all_reduce_gradients() {
  for (Value& gradient : gradients)
    if (gradient) gradient = ops::all_reduce(gradient, backends::Reduction::kSum, backends::Subject::kGradients);
}

void StepRecorder::keep(Value value, ArrayRole role, int32_t buffer, int32_t index) {
  if (value && value.id != arrays.get(role, buffer, index).id) arrays.set(value, role, buffer, index);
}

void StepRecorder::keep_gradients() {
  for (int32_t b = 0; b < std::ssize(gradients); ++b)
    keep(gradients[static_cast<size_t>(b)], ArrayRole::kGradients, b, 0);
}

void StepRecorder::keep_reached() {
  for (int32_t b = 0; b < std::ssize(reached); ++b) keep(reached[static_cast<size_t>(b)], ArrayRole::kUse, b, kReached);
}

void StepRecorder::add_to_logged(Value sums) {
  arrays.set_if(finite, ops::add(arrays.get(ArrayRole::kSum, 0, kLoggedSum), sums), ArrayRole::kSum, 0, kLoggedSum);
}

}  // namespace runner::train
