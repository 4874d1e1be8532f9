#include "runner/train/step/parameter_use.h"

#include <array>

#include "backends/ir/ops.h"
#include "runner/train/step/clock_values.h"

namespace runner::train {

namespace ops = backends::ops;
using backends::DType;
using backends::Shape;

namespace {

// Repeats one number per parameter of a buffer for each of its elements.
Value spread(Value numbers, const nn::ParameterSet& parameters, int32_t buffer) {
  std::vector<Value> parts;
  for (const nn::ParameterId id : parameters.in_buffer(buffer)) {
    const int64_t at = std::ssize(parts);
    parts.push_back(ops::expand(ops::slice(numbers, 0, at, at + 1), Shape{parameters[id].elements()}));
  }
  return ops::concat(parts, 0);
}

Value applied_to_each(Value reached, Value applied) {
  return ops::logical_and(ops::gt(reached, 0.0), applied);
}

}  // namespace

void add_reached(ReachedParameters& reached, backends::Program& program, const std::vector<bool>& by_parameter,
                 const nn::ParameterSet& parameters) {
  reached.resize(parameters.buffers().size());
  for (size_t b = 0; b < reached.size(); ++b) {
    if (parameters.buffers()[b].group < 0) continue;
    std::vector<double> numbers;
    for (const nn::ParameterId id : parameters.in_buffer(static_cast<int32_t>(b)))
      numbers.push_back(by_parameter[static_cast<size_t>(id)]);
    const Value now = ops::cast(ops::vector(program, numbers), DType::kF64);
    reached[b] = reached[b] ? reached_by_any(std::array{reached[b], now}) : now;
  }
}

Value reached_by_any(std::span<const Value> each) {
  Value any = each.front();
  for (const Value one : each.subspan(1)) any = ops::maximum(any, one);
  return any;
}

UpdateTerms clock_terms(const ArrayValues& arrays, const StepBuilder& builder, int32_t buffer, Value reached,
                        Value applied) {
  const nn::ParameterSet& parameters = builder.model().parameters;
  const OptimizerGroup& group = builder.group_of(buffer);
  const Value number = reached && !group.rule.custom ? ops::add(arrays.get(ArrayRole::kUse, buffer, kUpdates), 1.0)
                                                     : next_update(arrays, group.optimizer);
  UpdateTerms terms{clock_scalars(arrays, builder.recipe().scheduler, group, number), applied};
  if (!reached) return terms;
  terms.applied = spread(applied_to_each(reached, applied), parameters, buffer);
  for (Value& scalar : terms.scalars)
    if (scalar.shape().rank() > 0) scalar = spread(scalar, parameters, buffer);
  return terms;
}

void count_update_of_each(ArrayValues& arrays, int32_t buffer, Value reached, Value applied) {
  const Value before = arrays.get(ArrayRole::kUse, buffer, kUpdates);
  const Value counted = ops::cast(applied_to_each(reached, applied), DType::kF64);
  arrays.set(ops::add(before, counted), ArrayRole::kUse, buffer, kUpdates);
}

std::string unused_parameters(const std::vector<bool>& reached, const nn::ParameterSet& parameters) {
  std::string names;
  for (size_t id = 0; id < reached.size(); ++id) {
    const nn::Parameter& parameter = parameters.parameters()[id];
    if (parameter.trainable && !reached[id]) names += (names.empty() ? "" : ", ") + parameter.name;
  }
  return names;
}

}  // namespace runner::train
