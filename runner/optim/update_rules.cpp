#include "runner/optim/update_rules.h"

#include <cmath>

#include "backends/ir/ops.h"
#include "schema/base/error.h"

namespace runner::optim {
namespace {

namespace ops = backends::ops;
using schema::OptimizerHyper;
using schema::OptimizerType;
using Values = std::span<const Value>;

// Rules store subexpressions in variables where otherwise the compiler's order of evaluating arguments would decide the
// order of recorded ops. Compiled kernels are looked up by the recorded ops (docs/decisions/009-compiled-loops.md).

// ---- scalars -------------------------------------------------------------------------------------------------------
// The formula of each scalar is written once as a template: for doubles on the host, and for values recorded in a
// Program.

struct Recorded {
  Value value;  // () f64
};
Recorded operator-(double a, Recorded b) {
  return {ops::sub(a, b.value)};
}
Recorded operator-(Recorded a, double b) {
  return {ops::sub(a.value, b)};
}
Recorded operator+(double a, Recorded b) {
  return {ops::add(b.value, a)};
}
Recorded operator*(Recorded a, double b) {
  return {ops::mul(a.value, b)};
}
Recorded operator/(Recorded a, Recorded b) {
  return {ops::div(a.value, b.value)};
}
Recorded operator/(double a, Recorded b) {
  return {ops::div(a, b.value)};
}

double power(double base, double exponent) {
  return std::pow(base, exponent);
}
Recorded power(Recorded base, Recorded exponent) {
  return {ops::pow(base.value, exponent.value)};
}
Recorded power(double base, Recorded exponent) {
  return power(Recorded{ops::full_like(exponent.value, base)}, exponent);
}
double root(double x) {
  return std::sqrt(x);
}
Recorded root(Recorded x) {
  return {ops::sqrt(x.value)};
}

// Returns `first` in update number 1, and `later` afterwards.
double in_first(double step, double first, double later) {
  return step == 1 ? first : later;
}
Recorded in_first(Recorded step, double first, Recorded later) {
  const Value is_first = ops::eq(step.value, ops::full_like(step.value, 1.0));
  return {ops::where(is_first, ops::full_like(step.value, first), later.value)};
}
Recorded in_first(Recorded step, double first, double later) {
  return in_first(step, first, Recorded{ops::full_like(step.value, later)});
}

template <class Number>
struct Rates {
  Number lr, momentum;
};

// ---- sgd: scalars lr, momentum, fresh, nesterov_momentum -----------------------------------------------------------
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

// ---- adam, adamw: scalars rate, keep, rest1, inv_root ---------------------------------------------------------------
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

// ---- rmsprop: scalars lr, momentum ----------------------------------------------------------------------------------
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

// ---- adagrad: scalar rate = lr / (1 + (t − 1) lr_decay) -------------------------------------------------------------

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

// ---- lion: scalars lr, keep, beta1, rest1 ---------------------------------------------------------------------------
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

// ---- custom rule of a hook: scalars lr, step -----------------------------------------------------------------------

constexpr std::string_view kCustomScalars[] = {"lr", "step"};

template <class Number>
void custom_scalars(const OptimizerHyper&, const Rates<Number>& rates, Number step, std::span<Number> s) {
  s[0] = rates.lr;
  s[1] = step;
}

// ---- average of the weights: scalar average_rate -------------------------------------------------------------------

constexpr std::string_view kAverageScalar = "average_rate";

double average_rate(const WeightAverage& average, double step) {
  const double later = step - static_cast<double>(average.start);
  if (later <= 0) return 1;
  if (average.decay) return 1 - *average.decay;
  const double count = later / static_cast<double>(average.every);
  return count == std::floor(count) ? 1 / (count + 1) : 0;
}
Value average_rate(const WeightAverage& average, Value step) {
  const Value later = ops::sub(step, static_cast<double>(average.start));
  const Value zero = ops::full_like(step, 0.0), one = ops::full_like(step, 1.0);
  const auto from_start = [&](Value rate) { return ops::where(ops::le(later, zero), one, rate); };
  if (average.decay) return from_start(ops::full_like(step, 1 - *average.decay));
  const Value count = ops::div(later, ops::full_like(step, static_cast<double>(average.every)));
  const Value whole = ops::cast(ops::cast(count, backends::DType::kI64), backends::DType::kF64);
  return from_start(ops::where(ops::eq(count, whole), ops::div(1.0, ops::add(count, 1.0)), zero));
}

// With a rate of 1 or 0 this is exactly one of the two.
Value averaged(Value average, Value parameters, Value rate) {
  const Value kept = ops::mul(average, ops::sub(1.0, rate));
  return ops::add(kept, ops::mul(parameters, rate));
}

// ---- the table ------------------------------------------------------------------------------------------------------

template <class Number>
using ScalarFormula = void (*)(const OptimizerHyper&, const Rates<Number>&, Number step, std::span<Number>);

struct RuleRow {
  OptimizerType type;
  std::vector<Slot> (*slots)(const OptimizerHyper& hyper);
  std::span<const std::string_view> scalars;
  ScalarFormula<double> host_scalars;
  ScalarFormula<Recorded> recorded_scalars;
  Updated (*update)(const OptimizerHyper&, Value, Value, Values, Values);
  double OptimizerHyper::*momentum;
};

constexpr RuleRow kRules[] = {
    {OptimizerType::kSgd, sgd_slots, kSgdScalars, sgd_scalars, sgd_scalars, sgd, &OptimizerHyper::momentum},
    {OptimizerType::kAdam, adam_slots, kAdamScalars, adam_scalars, adam_scalars, adam, &OptimizerHyper::beta1},
    {OptimizerType::kAdamw, adam_slots, kAdamScalars, adam_scalars, adam_scalars, adamw, &OptimizerHyper::beta1},
    {OptimizerType::kRmsprop, rmsprop_slots, kRmspropScalars, rmsprop_scalars, rmsprop_scalars, rmsprop,
     &OptimizerHyper::momentum},
    {OptimizerType::kAdagrad, adagrad_slots, kAdagradScalars, adagrad_scalars, adagrad_scalars, adagrad,
     &OptimizerHyper::momentum},
    {OptimizerType::kLion, lion_slots, kLionScalars, lion_scalars, lion_scalars, lion, &OptimizerHyper::beta1},
    {OptimizerType::kHook, nullptr, kCustomScalars, custom_scalars, custom_scalars, nullptr, &OptimizerHyper::momentum},
};

const RuleRow& row_of(OptimizerType type) {
  for (const RuleRow& row : kRules)
    if (row.type == type) return row;
  RUN_ASSERT(false && "an optimizer without a rule");
  return kRules[0];
}

}  // namespace

std::vector<Slot> slots(const Rule& rule) {
  std::vector<Slot> all = rule.custom ? rule.custom->slots() : row_of(rule.type).slots(rule.hyper);
  if (rule.average) all.push_back({.name = kAverageSlot, .from_start = true, .is_average = true});
  return all;
}

std::vector<std::string_view> scalar_names(const Rule& rule) {
  const auto own = row_of(rule.type).scalars;
  std::vector<std::string_view> names(own.begin(), own.end());
  if (rule.average) names.push_back(kAverageScalar);
  return names;
}

size_t scalar_count(const Rule& rule) {
  return row_of(rule.type).scalars.size() + (rule.average ? 1 : 0);
}

void step_scalars(const Rule& rule, const StepRates& rates, int64_t step, std::span<double> scalars) {
  RUN_ASSERT(scalars.size() == scalar_count(rule) && step >= 1);
  const RuleRow& row = row_of(rule.type);
  row.host_scalars(rule.hyper, {rates.lr, rates.momentum}, static_cast<double>(step),
                   scalars.first(row.scalars.size()));
  if (rule.average) scalars.back() = average_rate(*rule.average, static_cast<double>(step));
}

std::vector<Value> record_scalars(const Rule& rule, const RecordedRates& rates, Value step) {
  const RuleRow& row = row_of(rule.type);
  std::vector<Recorded> numbers(row.scalars.size());
  row.recorded_scalars(rule.hyper, {{rates.lr}, {rates.momentum}}, {step}, numbers);
  std::vector<Value> scalars;
  for (const Recorded& number : numbers) scalars.push_back(number.value);
  if (rule.average) scalars.push_back(average_rate(*rule.average, step));
  return scalars;
}

Updated update(const Rule& rule, Value parameters, Value gradient, Values slots, Values scalars) {
  const Values own = slots.first(slots.size() - (rule.average ? 1 : 0));
  Updated now = rule.custom ? rule.custom->update(parameters, gradient, own, scalars[0], scalars[1])
                            : row_of(rule.type).update(rule.hyper, parameters, gradient, own, scalars);
  if (rule.average) now.slots.push_back(averaged(slots.back(), now.parameters, scalars.back()));
  return now;
}

double base_momentum(const Rule& rule) {
  return rule.hyper.*row_of(rule.type).momentum;
}

}  // namespace runner::optim
