// Scalars that torch.optim's single-tensor code passes to the device while tracing an update.
//
// A lazy device compares them: a graph changes when a scalar becomes 0 or ±1, or becomes equal to another one
// (backends/tpu/scalar_signature.h). The scalars of our own updates (update_rules.h) differ and have no such effect.
// The lists were obtained by tracing with tests/golden/xla/scalars.py.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/ir/traced_scalar.h"
#include "runner/optim/update_rules.h"

namespace runner::optim {

// Appends the scalars of update number `step` (from 1) of one parameter, in order. For a hook's rule these are the
// scalars of our update; those that the rule does not use appear in no graph.
void trace_scalars(const Rule& rule, const StepRates& rates, int64_t step,
                   std::vector<backends::TracedScalar>& scalars);

// Append the scalars of torch.nn.utils.clip_grad_norm_ and clip_grad_value_, and of Accelerate's division of a loss by
// gradient_accumulation_steps.
void trace_accumulation(int64_t batches, std::vector<backends::TracedScalar>& scalars);
void trace_clip_grad_norm(double limit, std::vector<backends::TracedScalar>& scalars);
void trace_clip_grad_value(double limit, std::vector<backends::TracedScalar>& scalars);

}  // namespace runner::optim
