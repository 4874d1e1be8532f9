// optimizer.type lion: arXiv 2302.06675, algorithm 2.
#include "runner/optim/optimizer_def.h"

namespace runner::optim {
namespace {

// p ← p·keep − lr · sign(β1 m + (1 − β1) g); m ← β2 m + (1 − β2) g.

constexpr std::string_view kLionScalars[] = {"lr", "keep", "beta1", "rest1"};

std::vector<Slot> lion_slots(const OptimizerHyper&) {
  return {{"exp_avg"}};
}

template <class Number>
void lion_scalars(const OptimizerHyper& hyper, const Rates<Number>& rates, Number, std::span<Number> s) {
  s[0] = rates.lr;
  s[1] = 1.0 - rates.lr * hyper.weight_decay;
  s[2] = rates.momentum;
  s[3] = 1.0 - rates.momentum;
}

Updated lion(const OptimizerHyper& hyper, Value p, Value g, Values slots, Values s) {
  if (hyper.weight_decay != 0) p = ops::mul(p, s[1]);
  const Value of_direction = ops::mul(g, s[3]);
  const Value direction = ops::sign(ops::add(ops::mul(slots[0], s[2]), of_direction));
  const Value of_m = ops::mul(g, 1.0 - hyper.beta2);
  const Value m = ops::add(ops::mul(slots[0], hyper.beta2), of_m);
  return {ops::sub(p, ops::mul(direction, s[0])), {m}};
}

// As in the PyTorch code of its authors.
void torch_lion(const TorchUpdate& update) {
  const double beta1 = update.rates.momentum, beta2 = update.hyper.beta2;
  update.decoupled_decay();
  update.operand("beta1", beta1);
  update.factor("1 - beta1", 1 - beta1);
  update.factor("-lr", -update.rates.lr);
  update.operand("beta2", beta2);
  update.factor("1 - beta2", 1 - beta2);
}

constexpr DecayRate kLionDecayRates[] = {{"betas", &OptimizerHyper::beta1, "the first moment"},
                                         {"betas", &OptimizerHyper::beta2, "the second moment"}};

}  // namespace

const OptimizerDef kLionOptimizer{
    .slots = lion_slots,
    .scalars = {kLionScalars, lion_scalars<double>, lion_scalars<Recorded>},
    .update = lion,
    .torch_scalars = torch_lion,
    .momentum = &OptimizerHyper::beta1,
    .decay_rates = kLionDecayRates,
    .weight_decay = WeightDecay::kOfParameters,
    .divides_by_eps = false,
};

}  // namespace runner::optim
