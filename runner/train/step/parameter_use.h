// comm.unused: skip. An optimizer step does not touch parameters on which no loss of the step depends, on any rank, as
// torch.optim skips parameters whose grad is None: no weight decay, no decay of moments, no update counted.
//
// Each parameter therefore has its own count of updates for its bias corrections, and the device keeps it. The arrays
// of ArrayRole::kUse have one number per parameter of a flat buffer, in the order of the buffer. Rationale:
// docs/decisions/039-unused-parameters.md.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "runner/train/step/array_values.h"
#include "runner/train/step/step_builder.h"
#include "schema/recipe/recipe.h"

namespace runner::train {

inline bool skips_unused(const schema::CommSpec& comm) {
  return comm.unused == schema::Unused::kSkip;
}
inline bool skips_unused(const ArrayValues& arrays) {
  return arrays.has(ArrayRole::kUse);
}

// ---- in a Program --------------------------------------------------------------------------------------------------

// By trained flat buffer, (parameters) f64: 1 if a loss depends on the parameter, else 0. Unset: no loss depends on
// any.
using ReachedParameters = std::vector<Value>;

// Adds the parameters that a derivative has reached, by ParameterId.
void add_reached(ReachedParameters& reached, backends::Program& program, const std::vector<bool>& by_parameter,
                 const nn::ParameterSet& parameters);
// Elementwise maximum: what any of `each` has reached.
Value reached_by_any(std::span<const Value> each);

// Inputs of the update of a flat buffer in addition to the gradient.
struct UpdateTerms {
  std::vector<Value> scalars;  // () or (elements) f32, as in optim::scalar_names()
  Value applied;               // () or (elements) bool; false leaves everything unchanged; unset means true
};
// Scalars and condition of an update with device-side counters. If `reached` is set they are per element, except that a
// hook's own rule, which does not know parameters, gets the scalars of the whole optimizer. If unset, unused parameters
// are updated too. applied: () bool, whether the optimizer step is applied.
UpdateTerms clock_terms(const ArrayValues& arrays, const StepBuilder& builder, int32_t buffer, Value reached,
                        Value applied);
// Counts the update for the parameters that were reached. Call after the update.
void count_update_of_each(ArrayValues& arrays, int32_t buffer, Value reached, Value applied);

// ---- on the host ---------------------------------------------------------------------------------------------------

// Names of trained parameters that were not reached, "2.weight, 2.bias"; empty if all were.
std::string unused_parameters(const std::vector<bool>& reached, const nn::ParameterSet& parameters);

}  // namespace runner::train
