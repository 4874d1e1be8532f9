#include "runner/train/step/loss_scaler.h"

#include "backends/ir/ops.h"

namespace runner::train {

namespace ops = backends::ops;

std::optional<double> first_scale(const schema::Recipe& recipe) {
  const bool scaled = recipe.mixed_precision == schema::Precision::kFp16 && recipe.scaler.enabled;
  return scaled ? std::optional(recipe.scaler.init_scale) : std::nullopt;
}

Value loss_scale(const ArrayValues& arrays) {
  return arrays.has(ArrayRole::kScaler) ? arrays.get(ArrayRole::kScaler, 0, kScale) : Value();
}

Value unscaled(Value gradient, Value scale) {
  return scale ? ops::mul(gradient, ops::div(1.0, ops::detach(scale))) : gradient;
}

void unscale(Gradients& gradients, Value scale) {
  for (Value& gradient : gradients)
    if (gradient) gradient = unscaled(gradient, scale);
}

// A sum of squares is not finite if any element is not.
Value all_finite(std::span<const Value> gradients) {
  return ops::is_finite(sum_of_squares(gradients));
}

void update_scale(ArrayValues& arrays, const schema::ScalerSpec& spec, Value fits) {
  const Value scale = arrays.get(ArrayRole::kScaler, 0, kScale), good = arrays.get(ArrayRole::kScaler, 0, kGoodSteps);
  const Value zero = ops::full_like(good, 0.0);
  const Value now_good = ops::where(fits, ops::add(good, 1.0), zero);
  const Value is_due = ops::ge(now_good, ops::full_like(good, static_cast<double>(spec.growth_interval)));
  const Value grown = ops::mul(scale, spec.growth_factor);
  const Value larger = ops::where(ops::logical_and(is_due, ops::is_finite(grown)), grown, scale);
  arrays.set(ops::where(fits, larger, ops::mul(scale, spec.backoff_factor)), ArrayRole::kScaler, 0, kScale);
  arrays.set(ops::where(is_due, zero, now_good), ArrayRole::kScaler, 0, kGoodSteps);
}

}  // namespace runner::train
