// Loss scaling for fp16, whose gradients would otherwise underflow. Follows torch.amp.GradScaler, on the device.
//
// Gradients are scaled only while they are fp16. Once they are float32 they are divided by the scale, before they are
// accumulated, clipped or stored, so no later code needs the scale.
#pragma once

#include <optional>
#include <span>

#include "runner/train/step/array_values.h"
#include "runner/train/step/gradients.h"
#include "schema/recipe/recipe.h"

namespace runner::train {

// Initial loss scale; none if the loss is not scaled.
std::optional<double> first_scale(const schema::Recipe& recipe);

// Factor of the loss in the backward pass, () f32, which unscale() divides out of the gradients. Unset: not scaled.
Value loss_scale(const ArrayValues& arrays);
void unscale(Gradients& gradients, Value scale);
Value unscaled(Value gradient, Value scale);

// () bool: whether every element is finite.
Value all_finite(std::span<const Value> gradients);

// Updates the scale after a step: shrinks it if gradients overflowed so that the step was not applied, and grows it
// after growth_interval steps without an overflow. fits: () bool, whether gradients did not overflow.
void update_scale(ArrayValues& arrays, const schema::ScalerSpec& spec, Value fits);

// Smallest useful scale. Gradients that overflow at this scale overflow at any scale.
inline constexpr double kSmallestScale = 0x1p-24;

}  // namespace runner::train
