#include "runner/optim/traced_scalars.h"

#include <cmath>

namespace runner::optim {
namespace {

using backends::ScalarUse;
using backends::TracedScalar;
using schema::OptimizerHyper;
using schema::OptimizerType;

struct Update {
  const OptimizerHyper& hyper;
  const StepRates& rates;
  double step;
  std::vector<TracedScalar>& scalars;

  void operand(std::string_view name, double value) const { scalars.push_back({ScalarUse::kOperand, value, name}); }
  void factor(std::string_view name, double value) const { scalars.push_back({ScalarUse::kFactor, value, name}); }
  void value(std::string_view name, double value) const { scalars.push_back({ScalarUse::kValue, value, name}); }
  void coupled_decay() const {
    if (hyper.weight_decay != 0) factor("weight_decay", hyper.weight_decay);
  }
};

void sgd_scalars(const Update& update) {
  update.coupled_decay();
  if (update.hyper.momentum != 0 && update.step > 1) {
    update.operand("momentum", update.rates.momentum);
    if (update.hyper.dampening != 0) update.factor("1 - dampening", 1 - update.hyper.dampening);
  }
  if (update.hyper.momentum != 0 && update.hyper.nesterov) update.factor("momentum", update.rates.momentum);
  update.factor("-lr", -update.rates.lr);
}

void adam_moments(const Update& update) {
  const double beta1 = update.rates.momentum, beta2 = update.hyper.beta2;
  update.factor("1 - beta1", 1 - beta1);
  update.operand("beta2", beta2);
  update.value("1 - beta2", 1 - beta2);
  update.operand("the root of 1 - beta2^step", std::sqrt(1 - std::pow(beta2, update.step)));
  update.operand("eps", update.hyper.eps);
  update.value("-lr / (1 - beta1^step)", -(update.rates.lr / (1 - std::pow(beta1, update.step))));
}

void adam_scalars(const Update& update) {
  update.coupled_decay();
  adam_moments(update);
}

void adamw_scalars(const Update& update) {
  if (update.hyper.weight_decay != 0)
    update.operand("1 - lr * weight_decay", 1 - update.rates.lr * update.hyper.weight_decay);
  adam_moments(update);
}

void rmsprop_scalars(const Update& update) {
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

void adagrad_scalars(const Update& update) {
  update.coupled_decay();
  update.value("1", 1);
  update.operand("eps", update.hyper.eps);
  update.value("-lr", -(update.rates.lr / (1 + (update.step - 1) * update.hyper.lr_decay)));
}

// As in the PyTorch code of its authors.
void lion_scalars(const Update& update) {
  const double beta1 = update.rates.momentum, beta2 = update.hyper.beta2;
  if (update.hyper.weight_decay != 0)
    update.operand("1 - lr * weight_decay", 1 - update.rates.lr * update.hyper.weight_decay);
  update.operand("beta1", beta1);
  update.factor("1 - beta1", 1 - beta1);
  update.factor("-lr", -update.rates.lr);
  update.operand("beta2", beta2);
  update.factor("1 - beta2", 1 - beta2);
}

void custom(const Update& update) {
  update.operand("lr", update.rates.lr);
  update.operand("the step", update.step);
}

void (*tracer_of(OptimizerType type))(const Update&) {
  switch (type) {
    case OptimizerType::kSgd: return sgd_scalars;
    case OptimizerType::kAdam: return adam_scalars;
    case OptimizerType::kAdamw: return adamw_scalars;
    case OptimizerType::kRmsprop: return rmsprop_scalars;
    case OptimizerType::kAdagrad: return adagrad_scalars;
    case OptimizerType::kLion: return lion_scalars;
    case OptimizerType::kHook: return custom;
  }
  return nullptr;
}

}  // namespace

void trace_scalars(const Rule& rule, const StepRates& rates, int64_t step, std::vector<TracedScalar>& scalars) {
  tracer_of(rule.type)({rule.hyper, rates, static_cast<double>(step), scalars});
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
