// optimizer.type rmsprop, as torch.optim.RMSprop.
#include "runner/optim/optimizer_def.h"

namespace runner::optim {
namespace {

// q ← α q + (1 − α) g²; with `centered` a ← a + (g − a)(1 − α), the variance being q − a².

constexpr std::string_view kRmspropScalars[] = {"lr", "momentum"};

std::vector<Slot> rmsprop_slots(const OptimizerHyper& hyper) {
  std::vector<Slot> result = {{"square_avg"}};
  if (hyper.centered) result.push_back({"grad_avg"});
  if (hyper.momentum != 0) result.push_back({"momentum_buffer"});
  return result;
}

template <class Number>
void rmsprop_scalars(const OptimizerHyper&, const Rates<Number>& rates, Number, std::span<Number> s) {
  s[0] = rates.lr;
  s[1] = rates.momentum;
}

Updated rmsprop(const OptimizerHyper& hyper, Value p, Value g, Values slots, Values s) {
  if (hyper.weight_decay != 0) g = ops::add(g, ops::mul(p, hyper.weight_decay));
  const Value fresh = ops::mul(ops::mul(g, g), 1.0 - hyper.alpha);
  const Value square = ops::add(ops::mul(slots[0], hyper.alpha), fresh);
  std::vector<Value> updated = {square};
  Value variance = square;
  if (hyper.centered) {
    const Value average = ops::add(slots[1], ops::mul(ops::sub(g, slots[1]), 1.0 - hyper.alpha));
    updated.push_back(average);
    variance = ops::sub(square, ops::mul(average, average));
  }
  Value direction = ops::div(g, ops::add(ops::sqrt(variance), hyper.eps));
  if (hyper.momentum != 0) updated.push_back(direction = ops::add(ops::mul(slots.back(), s[1]), direction));
  return {ops::sub(p, ops::mul(direction, s[0])), std::move(updated)};
}

void torch_rmsprop(const TorchUpdate& update) {
  const OptimizerHyper& hyper = update.hyper;
  update.coupled_decay();
  update.operand("alpha", hyper.alpha);
  update.value("1 - alpha", 1 - hyper.alpha);
  if (hyper.centered) {
    update.factor("1 - alpha", 1 - hyper.alpha);
    update.value("-1", -1);
  }
  update.operand("eps", hyper.eps);
  if (hyper.momentum == 0) return update.value("-lr", -update.rates.lr);
  update.operand("momentum", update.rates.momentum);
  update.value("1", 1);
  update.factor("-lr", -update.rates.lr);
}

constexpr DecayRate kRmspropDecayRates[] = {{"alpha", &OptimizerHyper::alpha, "the mean of squares"}};

}  // namespace

const OptimizerDef kRmspropOptimizer{
    .slots = rmsprop_slots,
    .scalars = {kRmspropScalars, rmsprop_scalars<double>, rmsprop_scalars<Recorded>},
    .update = rmsprop,
    .torch_scalars = torch_rmsprop,
    .momentum = &OptimizerHyper::momentum,
    .decay_rates = kRmspropDecayRates,
    .weight_decay = WeightDecay::kInGradient,
    .divides_by_eps = true,
};

}  // namespace runner::optim
