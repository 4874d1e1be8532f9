#include "runner/optim/traced_scalars.h"

#include "runner/optim/optimizer_def.h"

namespace runner::optim {

using backends::ScalarUse;
using backends::TracedScalar;

void trace_scalars(const Rule& rule, const StepRates& rates, int64_t step, std::vector<TracedScalar>& scalars) {
  def_of(rule.type).torch_scalars({rule.hyper, rates, static_cast<double>(step), scalars});
}

void trace_accumulation(int64_t batches, std::vector<TracedScalar>& scalars) {
  scalars.push_back({ScalarUse::kOperand, static_cast<double>(batches), "gradient_accumulation_steps"});
}

void trace_clip_grad_norm(double limit, std::vector<TracedScalar>& scalars) {
  scalars.push_back({ScalarUse::kOperand, 1e-6, "1e-6"});
  scalars.push_back({ScalarUse::kOperand, limit, "clip_grad_norm"});
}

void trace_clip_grad_value(double limit, std::vector<TracedScalar>& scalars) {
  scalars.push_back({ScalarUse::kFactor, -limit, "-clip_grad_value"});
  scalars.push_back({ScalarUse::kFactor, limit, "clip_grad_value"});
}

}  // namespace runner::optim
