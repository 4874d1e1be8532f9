// optimizer.type sgd, as torch.optim.SGD: b ← μ b + (1 − dampening) g; p ← p − lr · b.
#include "runner/optim/optimizer_def.h"

namespace runner::optim {
namespace {

// b ← μ b + (1 − dampening) g; in the first step b ← g, for which momentum is 0 and fresh is 1.

constexpr std::string_view kSgdScalars[] = {"lr", "momentum", "fresh", "nesterov_momentum"};

std::vector<Slot> sgd_slots(const OptimizerHyper& hyper) {
  if (hyper.momentum == 0) return {};
  return {{.name = "momentum_buffer"}};
}

template <class Number>
void sgd_scalars(const OptimizerHyper& hyper, const Rates<Number>& rates, Number step, std::span<Number> s) {
  s[0] = rates.lr;
  s[1] = in_first(step, 0.0, rates.momentum);
  s[2] = in_first(step, 1.0, 1.0 - hyper.dampening);
  s[3] = rates.momentum;
}

Updated sgd(const OptimizerHyper& hyper, Value p, Value g, Values slots, Values s) {
  if (hyper.weight_decay != 0) g = ops::add(g, ops::mul(p, hyper.weight_decay));
  if (slots.empty()) return {ops::sub(p, ops::mul(g, s[0])), {}};
  const Value fresh = ops::mul(g, s[2]);
  const Value buffer = ops::add(ops::mul(slots[0], s[1]), fresh);
  const Value direction = hyper.nesterov ? ops::add(g, ops::mul(buffer, s[3])) : buffer;
  return {ops::sub(p, ops::mul(direction, s[0])), {buffer}};
}

void torch_sgd(const TorchUpdate& update) {
  update.coupled_decay();
  if (update.hyper.momentum != 0 && update.step > 1) {
    update.operand("momentum", update.rates.momentum);
    if (update.hyper.dampening != 0) update.factor("1 - dampening", 1 - update.hyper.dampening);
  }
  if (update.hyper.momentum != 0 && update.hyper.nesterov) update.factor("momentum", update.rates.momentum);
  update.factor("-lr", -update.rates.lr);
}

constexpr DecayRate kSgdDecayRates[] = {{"momentum", &OptimizerHyper::momentum, "the momentum buffer"}};

}  // namespace

const OptimizerDef kSgdOptimizer{
    .slots = sgd_slots,
    .scalars = {kSgdScalars, sgd_scalars<double>, sgd_scalars<Recorded>},
    .update = sgd,
    .torch_scalars = torch_sgd,
    .momentum = &OptimizerHyper::momentum,
    .decay_rates = kSgdDecayRates,
    .weight_decay = WeightDecay::kInGradient,
    .divides_by_eps = false,
};

}  // namespace runner::optim
