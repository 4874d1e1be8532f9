// The numbers that an update in PyTorch hands to the device as it is traced: torch.optim's single-tensor code.
//
// Our own updates have other scalars (update_rules.h), which decide nothing.  These are what a lazy device looks at: a
// number that becomes 0 or ±1, or equal to another, is another graph there (backends/tpu/scalar_signature.h).
// tests/golden/xla/scalars.py has traced them.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/ir/traced_scalar.h"
#include "runner/optim/update_rules.h"

namespace runner::optim {

// Of one parameter's update number `step` (from 1), in order, appended to `scalars`.  Those of a rule of a hook are the
// scalars of our update, in their order: what of them the rule does not use is in no graph.
void trace_scalars(const Rule& rule, const StepRates& rates, int64_t step,
                   std::vector<backends::TracedScalar>& scalars);

// The same of torch.nn.utils.clip_grad_norm_ and clip_grad_value_, and of Accelerate's division of a loss by the
// batches of a window.
void trace_accumulation(int64_t batches, std::vector<backends::TracedScalar>& scalars);
void trace_clip_grad_norm(double limit, std::vector<backends::TracedScalar>& scalars);
void trace_clip_grad_value(double limit, std::vector<backends::TracedScalar>& scalars);

}  // namespace runner::optim
