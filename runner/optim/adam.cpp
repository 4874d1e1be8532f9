// optimizer.type adam and adamw, as torch.optim.Adam and AdamW.
#include "runner/optim/optimizer_def.h"

namespace runner::optim {
namespace {

// m ← m + (g − m)(1 − β1); v ← β2 v + (1 − β2) g²; p ← p·keep − rate · m / (√v · inv_root + ε)
// with rate = lr / (1 − β1ᵗ), inv_root = 1 / √(1 − β2ᵗ), keep = 1 − lr·decay (adamw).

constexpr std::string_view kAdamScalars[] = {"rate", "keep", "rest1", "inv_root"};

std::vector<Slot> adam_slots(const OptimizerHyper& hyper) {
  std::vector<Slot> result = {{"exp_avg"}, {"exp_avg_sq"}};
  if (hyper.amsgrad) result.push_back({"max_exp_avg_sq"});
  return result;
}

template <class Number>
void adam_scalars(const OptimizerHyper& hyper, const Rates<Number>& rates, Number step, std::span<Number> s) {
  s[0] = rates.lr / (1.0 - power(rates.momentum, step));
  s[1] = 1.0 - rates.lr * hyper.weight_decay;
  s[2] = 1.0 - rates.momentum;
  s[3] = 1.0 / root(1.0 - power(hyper.beta2, step));
}

Updated adam_family(const OptimizerHyper& hyper, bool decoupled, Value p, Value g, Values slots, Values s) {
  if (hyper.weight_decay != 0) {
    if (decoupled) {
      p = ops::mul(p, s[1]);
    } else {
      g = ops::add(g, ops::mul(p, hyper.weight_decay));
    }
  }
  const Value m = ops::add(slots[0], ops::mul(ops::sub(g, slots[0]), s[2]));
  const Value square = ops::mul(ops::mul(g, g), 1.0 - hyper.beta2);
  const Value v = ops::add(ops::mul(slots[1], hyper.beta2), square);
  std::vector<Value> updated = {m, v};
  Value second = v;
  if (hyper.amsgrad) updated.push_back(second = ops::maximum(slots[2], v));
  const Value denominator = ops::add(ops::mul(ops::sqrt(second), s[3]), hyper.eps);
  return {ops::sub(p, ops::mul(ops::div(m, denominator), s[0])), std::move(updated)};
}

Updated adam(const OptimizerHyper& hyper, Value p, Value g, Values slots, Values s) {
  return adam_family(hyper, false, p, g, slots, s);
}

Updated adamw(const OptimizerHyper& hyper, Value p, Value g, Values slots, Values s) {
  return adam_family(hyper, true, p, g, slots, s);
}

void torch_moments(const TorchUpdate& update) {
  const double beta1 = update.rates.momentum, beta2 = update.hyper.beta2;
  update.factor("1 - beta1", 1 - beta1);
  update.operand("beta2", beta2);
  update.value("1 - beta2", 1 - beta2);
  update.operand("the root of 1 - beta2^step", std::sqrt(1 - std::pow(beta2, update.step)));
  update.operand("eps", update.hyper.eps);
  update.value("-lr / (1 - beta1^step)", -(update.rates.lr / (1 - std::pow(beta1, update.step))));
}

void torch_adam(const TorchUpdate& update) {
  update.coupled_decay();
  torch_moments(update);
}

void torch_adamw(const TorchUpdate& update) {
  update.decoupled_decay();
  torch_moments(update);
}

constexpr DecayRate kAdamDecayRates[] = {{"betas", &OptimizerHyper::beta1, "the first moment"},
                                         {"betas", &OptimizerHyper::beta2, "the second moment"}};

}  // namespace

const OptimizerDef kAdamOptimizer{
    .slots = adam_slots,
    .scalars = {kAdamScalars, adam_scalars<double>, adam_scalars<Recorded>},
    .update = adam,
    .torch_scalars = torch_adam,
    .momentum = &OptimizerHyper::beta1,
    .decay_rates = kAdamDecayRates,
    .weight_decay = WeightDecay::kInGradient,
    .divides_by_eps = true,
};

const OptimizerDef kAdamwOptimizer{
    .slots = adam_slots,
    .scalars = {kAdamScalars, adam_scalars<double>, adam_scalars<Recorded>},
    .update = adamw,
    .torch_scalars = torch_adamw,
    .momentum = &OptimizerHyper::beta1,
    .decay_rates = kAdamDecayRates,
    .weight_decay = WeightDecay::kOfParameters,
    .divides_by_eps = true,
};

}  // namespace runner::optim
