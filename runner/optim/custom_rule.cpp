// optimizer.type hook: a rule that a hook defines (CustomRule).
#include "runner/optim/optimizer_def.h"

namespace runner::optim {
namespace {

constexpr std::string_view kCustomScalars[] = {"lr", "step"};

template <class Number>
void custom_scalars(const OptimizerHyper&, const Rates<Number>& rates, Number step, std::span<Number> s) {
  s[0] = rates.lr;
  s[1] = step;
}

void torch_custom(const TorchUpdate& update) {
  update.operand("lr", update.rates.lr);
  update.operand("the step", update.step);
}

}  // namespace

const OptimizerDef kHookOptimizer{
    .slots = nullptr,
    .scalars = {kCustomScalars, custom_scalars<double>, custom_scalars<Recorded>},
    .update = nullptr,
    .torch_scalars = torch_custom,
    .momentum = kNoMomentum,
    .decay_rates = kNoDecayRates,
    .weight_decay = WeightDecay::kByRule,
    .divides_by_eps = false,
};

}  // namespace runner::optim
