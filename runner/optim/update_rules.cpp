#include "runner/optim/update_rules.h"

#include <cmath>

#include "runner/optim/optimizer_def.h"
#include "schema/base/error.h"
#include "schema/recipe/choice_table.h"

namespace runner::optim {
namespace {

using schema::OptimizerType;

// ---- average of the weights: scalar average_rate -------------------------------------------------------------------

constexpr std::string_view kAverageScalar = "average_rate";

}  // namespace

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

Value averaged(Value average, Value value, Value rate) {
  const Value kept = ops::mul(average, ops::sub(1.0, rate));
  return ops::add(kept, ops::mul(value, rate));
}

namespace {

// ---- the table ------------------------------------------------------------------------------------------------------

#define RUNNER_OPTIMIZER_ROW(Name, torch_name) {OptimizerType::k##Name, &k##Name##Optimizer},
constexpr schema::ChoiceRow<OptimizerType, const OptimizerDef*> kOptimizers[] = {
    RUNNER_OPTIMIZERS(RUNNER_OPTIMIZER_ROW){OptimizerType::kHook, &kHookOptimizer}};
#undef RUNNER_OPTIMIZER_ROW
static_assert(schema::has_all_choices(kOptimizers));

}  // namespace

const OptimizerDef& def_of(OptimizerType type) {
  return *schema::value_of(kOptimizers, type);
}

std::vector<Slot> slots(const Rule& rule) {
  std::vector<Slot> all = rule.custom ? rule.custom->slots() : def_of(rule.type).slots(rule.hyper);
  if (rule.average) all.push_back({.name = kAverageSlot, .from_start = true, .is_average = true});
  return all;
}

std::vector<std::string_view> scalar_names(const Rule& rule) {
  const std::span<const std::string_view> own = def_of(rule.type).scalars.names;
  std::vector<std::string_view> names(own.begin(), own.end());
  if (rule.average) names.push_back(kAverageScalar);
  return names;
}

size_t scalar_count(const Rule& rule) {
  return def_of(rule.type).scalars.names->size() + (rule.average ? 1 : 0);
}

void step_scalars(const Rule& rule, const StepRates& rates, int64_t step, std::span<double> scalars) {
  RUN_ASSERT(scalars.size() == scalar_count(rule) && step >= 1);
  const Scalars& own = def_of(rule.type).scalars;
  own.host(rule.hyper, {rates.lr, rates.momentum}, static_cast<double>(step), scalars.first(own.names->size()));
  if (rule.average) scalars.back() = average_rate(*rule.average, static_cast<double>(step));
}

std::vector<Value> record_scalars(const Rule& rule, const RecordedRates& rates, Value step) {
  const Scalars& own = def_of(rule.type).scalars;
  std::vector<Recorded> numbers(own.names->size());
  own.recorded(rule.hyper, {{rates.lr}, {rates.momentum}}, {step}, numbers);
  std::vector<Value> scalars;
  for (const Recorded& number : numbers) scalars.push_back(number.value);
  if (rule.average) scalars.push_back(average_rate(*rule.average, step));
  return scalars;
}

Updated update(const Rule& rule, Value parameters, Value gradient, Values slots, Values scalars) {
  const Values own = slots.first(slots.size() - (rule.average ? 1 : 0));
  Updated now = rule.custom ? rule.custom->update(parameters, gradient, own, scalars[0], scalars[1])
                            : def_of(rule.type).update(rule.hyper, parameters, gradient, own, scalars);
  if (rule.average) now.slots.push_back(averaged(slots.back(), now.parameters, scalars.back()));
  return now;
}

double base_momentum(const Rule& rule) {
  double OptimizerHyper::*const momentum = def_of(rule.type).momentum;
  return momentum != nullptr ? rule.hyper.*momentum : 0;
}

}  // namespace runner::optim
