// The loss scale of fp16, whose gradients would else be too small for the number type: torch.amp.GradScaler's rules, on
// the device.
//
// Gradients are of the scaled loss only while they are fp16.  Where they become float32 they are divided by the scale,
// before anything adds them up, clips them or keeps them, so that no later step needs to know of it.
#pragma once

#include <optional>
#include <span>

#include "runner/train/step/gradients.h"
#include "runner/train/step/step_completion.h"
#include "schema/recipe.h"

namespace runner::train {

// The scale that training begins with; none: the loss is not scaled.
std::optional<double> first_scale(const schema::Recipe& recipe);

// What d loss is multiplied by for a backward pass, () f32, and what divides its gradients again; unset: not scaled.
Value loss_scale(const ArrayValues& arrays);
void unscale(Gradients& gradients, Value scale);
Value unscaled(Value gradient, Value scale);

// () bool: every element is finite.
Value all_finite(std::span<const Value> gradients);

// The scale behind a step: it falls where the step was not applied, because gradients overflowed, and grows after
// growth_interval that were.  applied: () bool.
void update_scale(ArrayValues& arrays, const schema::ScalerSpec& spec, Value applied);

// Below this scale fp16 has no smaller gradients to offer: what overflows still, does so at any scale.
inline constexpr double kSmallestScale = 0x1p-24;

}  // namespace runner::train
