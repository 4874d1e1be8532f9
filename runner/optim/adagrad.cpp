// optimizer.type adagrad, as torch.optim.Adagrad.
#include "runner/optim/optimizer_def.h"

namespace runner::optim {
namespace {

constexpr std::string_view kAdagradScalars[] = {"rate"};

std::vector<Slot> adagrad_slots(const OptimizerHyper& hyper) {
  return {{.name = "sum", .initial = hyper.initial_accumulator_value, .from_start = true}};
}

template <class Number>
void adagrad_scalars(const OptimizerHyper& hyper, const Rates<Number>& rates, Number step, std::span<Number> s) {
  s[0] = rates.lr / (1.0 + (step - 1.0) * hyper.lr_decay);
}

Updated adagrad(const OptimizerHyper& hyper, Value p, Value g, Values slots, Values s) {
  if (hyper.weight_decay != 0) g = ops::add(g, ops::mul(p, hyper.weight_decay));
  const Value sum = ops::add(slots[0], ops::mul(g, g));
  return {ops::sub(p, ops::mul(ops::div(g, ops::add(ops::sqrt(sum), hyper.eps)), s[0])), {sum}};
}

void torch_adagrad(const TorchUpdate& update) {
  update.coupled_decay();
  update.value("1", 1);
  update.operand("eps", update.hyper.eps);
  update.value("-lr", -(update.rates.lr / (1 + (update.step - 1) * update.hyper.lr_decay)));
}

}  // namespace

const OptimizerDef kAdagradOptimizer{
    .slots = adagrad_slots,
    .scalars = {kAdagradScalars, adagrad_scalars<double>, adagrad_scalars<Recorded>},
    .update = adagrad,
    .torch_scalars = torch_adagrad,
    .momentum = kNoMomentum,
    .decay_rates = kNoDecayRates,
    .weight_decay = WeightDecay::kInGradient,
    .divides_by_eps = true,
};

}  // namespace runner::optim
