// The definition of an optimizer of the recipe: its state, its update, and what is known of its numbers.
//
// Each optimizer has one definition, in a file of its own, and a row in RUNNER_OPTIMIZERS; its fields are in
// schema/fields.yaml. There are no defaults: a definition that leaves out a field does not compile, a row without a
// definition does not link. Definitions are constants; thread-safe.
//
// Rules store subexpressions in variables where otherwise the compiler's order of evaluating arguments would decide the
// order of recorded ops. Compiled kernels are looked up by the recorded ops (docs/decisions/009-compiled-loops.md).
#pragma once

#include <cmath>
#include <span>
#include <string_view>
#include <vector>

#include "backends/ir/ops.h"
#include "runner/optim/update_rules.h"
#include "schema/base/required.h"

namespace runner::optim {

namespace ops = backends::ops;
using schema::OptimizerHyper;
using Values = std::span<const Value>;

// ---- scalars --------------------------------------------------------------------------------------------------------
// The formula of each scalar is written once as a template: for doubles on the host, and for values recorded in a
// Program.

struct Recorded {
  Value value;  // () f64
};
inline Recorded operator-(double a, Recorded b) {
  return {ops::sub(a, b.value)};
}
inline Recorded operator-(Recorded a, double b) {
  return {ops::sub(a.value, b)};
}
inline Recorded operator+(double a, Recorded b) {
  return {ops::add(b.value, a)};
}
inline Recorded operator*(Recorded a, double b) {
  return {ops::mul(a.value, b)};
}
inline Recorded operator/(Recorded a, Recorded b) {
  return {ops::div(a.value, b.value)};
}
inline Recorded operator/(double a, Recorded b) {
  return {ops::div(a, b.value)};
}

inline double power(double base, double exponent) {
  return std::pow(base, exponent);
}
inline Recorded power(Recorded base, Recorded exponent) {
  return {ops::pow(base.value, exponent.value)};
}
inline Recorded power(double base, Recorded exponent) {
  return power(Recorded{ops::full_like(exponent.value, base)}, exponent);
}
inline double root(double x) {
  return std::sqrt(x);
}
inline Recorded root(Recorded x) {
  return {ops::sqrt(x.value)};
}

// Returns `first` in update number 1, and `later` afterwards.
inline double in_first(double step, double first, double later) {
  return step == 1 ? first : later;
}
inline Recorded in_first(Recorded step, double first, Recorded later) {
  const Value is_first = ops::eq(step.value, ops::full_like(step.value, 1.0));
  return {ops::where(is_first, ops::full_like(step.value, first), later.value)};
}
inline Recorded in_first(Recorded step, double first, double later) {
  return in_first(step, first, Recorded{ops::full_like(step.value, later)});
}

template <class Number>
struct Rates {
  Number lr, momentum;
};

template <class Number>
using ScalarFormula = void (*)(const OptimizerHyper&, const Rates<Number>&, Number step, std::span<Number>);

// The numbers of an update that change per step, in the order of update()'s argument.
struct Scalars {
  Required<std::span<const std::string_view>> names;
  Required<ScalarFormula<double>> host;
  Required<ScalarFormula<Recorded>> recorded;
};

// Collects the scalars that the code of torch.optim passes to the device in one update (traced_scalars.h).
struct TorchUpdate {
  const OptimizerHyper& hyper;
  const StepRates& rates;
  double step;  // from 1
  std::vector<backends::TracedScalar>& scalars;

  void operand(std::string_view name, double value) const {
    scalars.push_back({backends::ScalarUse::kOperand, value, name});
  }
  void factor(std::string_view name, double value) const {
    scalars.push_back({backends::ScalarUse::kFactor, value, name});
  }
  void value(std::string_view name, double value) const {
    scalars.push_back({backends::ScalarUse::kValue, value, name});
  }
  // Weight decay that is added to the gradient, and weight decay that multiplies the parameters.
  void coupled_decay() const {
    if (hyper.weight_decay != 0) factor("weight_decay", hyper.weight_decay);
  }
  void decoupled_decay() const {
    if (hyper.weight_decay != 0) operand("1 - lr * weight_decay", 1 - rates.lr * hyper.weight_decay);
  }
};

// ---- definitions ----------------------------------------------------------------------------------------------------

// Decay rate of a running mean: the key of the recipe, and what never decays if the rate is 1.
struct DecayRate {
  std::string_view key;
  double OptimizerHyper::*value;
  std::string_view what;
};

// How a rule applies weight decay.
enum class WeightDecay {
  kInGradient,    // g ← g + decay · p
  kOfParameters,  // p ← p · (1 − lr · decay)
  kByRule,        // as the rule of a hook does
};

struct OptimizerDef {
  Required<std::vector<Slot> (*)(const OptimizerHyper& hyper)> slots;
  Scalars scalars;
  // As optim::update(); the scalars as in `scalars`. Null: by CustomRule.
  Required<Updated (*)(const OptimizerHyper& hyper, Value p, Value g, Values slots, Values scalars)> update;
  Required<void (*)(const TorchUpdate& update)> torch_scalars;
  Required<double OptimizerHyper::*> momentum;  // the number that one_cycle moves: momentum or β1; null: none
  Required<std::span<const DecayRate>> decay_rates;
  Required<WeightDecay> weight_decay;
  Required<bool> divides_by_eps;  // where a gradient was always 0
};
inline constexpr std::nullptr_t kNoMomentum = nullptr;
inline constexpr std::span<const DecayRate> kNoDecayRates{};

const OptimizerDef& def_of(schema::OptimizerType type);

// The optimizers of the recipe, one row each, in the order of the recipe's choices: the enumerator of
// schema::OptimizerType without its k, and the name in torch.optim, which hooks use.
#define RUNNER_OPTIMIZERS(OPTIMIZER) \
  OPTIMIZER(Sgd, "SGD")              \
  OPTIMIZER(Adam, "Adam")            \
  OPTIMIZER(Adamw, "AdamW")          \
  OPTIMIZER(Rmsprop, "RMSprop")      \
  OPTIMIZER(Adagrad, "Adagrad")      \
  OPTIMIZER(Lion, "Lion")

#define RUNNER_DECLARE_OPTIMIZER(Name, torch_name) extern const OptimizerDef k##Name##Optimizer;
RUNNER_OPTIMIZERS(RUNNER_DECLARE_OPTIMIZER)
#undef RUNNER_DECLARE_OPTIMIZER
extern const OptimizerDef kHookOptimizer;

}  // namespace runner::optim
