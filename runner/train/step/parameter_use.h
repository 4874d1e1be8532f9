// comm.unused: skip: a step leaves those parameters alone that no loss of its window depends on, on any replica, as
// torch.optim does with those whose grad is None: no decay, neither of weights nor of moments, and no update counted.
//
// So each parameter has a count of updates of its own, which its bias corrections come from, and the device keeps them:
// the arrays of Role::kUse have one number for each parameter of a flat buffer, in the order of the buffer.
// docs/decisions/039-unused-parameters.md says why.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "runner/train/step/step_completion.h"
#include "schema/recipe.h"

namespace runner::train {

inline bool skips_unused(const schema::CommSpec& comm) {
  return comm.unused == schema::Unused::kSkip;
}
inline bool skips_unused(const ArrayValues& arrays) {
  return arrays.has(Role::kUse);
}

// ---- in a Program --------------------------------------------------------------------------------------------------

// By flat buffer that is trained, (parameters) f64: 1 where a loss depends on the parameter, else 0; unset: none does.
using ReachedParameters = std::vector<Value>;

// Adds what a derivative has reached, by ParameterId.
void add_reached(ReachedParameters& reached, backends::Program& program, const std::vector<bool>& by_parameter,
                 const nn::ParameterSet& parameters);
// What any of several has reached.
Value reached_by_any(std::span<const Value> each);

// Those of an update where the device counts.  With `reached`, unset where unused parameters are updated, too, they are
// by element; but the scalars of a rule of a hook's own, which knows of no parameters, are those of the whole
// optimizer. applied: () bool, whether the step is.
UpdateTerms clock_terms(const ArrayValues& arrays, const StepBuilder& builder, int32_t buffer, Value reached,
                        Value applied);
// Behind it: an update counts for those that were reached.
void count_update_of_each(ArrayValues& arrays, int32_t buffer, Value reached, Value applied);

// ---- on the host ---------------------------------------------------------------------------------------------------

// Trained parameters that were not reached, "2.weight, 2.bias"; empty: all were.
std::string unused_parameters(const std::vector<bool>& reached, const nn::ParameterSet& parameters);

}  // namespace runner::train
