// Optimizers: compute new parameters and slots from parameters, gradients and slots.
//
// A rule records element-wise ops over whole flat buffers, so that one fused kernel updates a parameter group. The
// rules sgd to adagrad follow torch.optim's single-tensor code; lion follows arXiv 2302.06675, algorithm 2. Slots have
// the names of torch's optimizer state. Values that change per step (rates, bias corrections) are scalar inputs. The
// host computes them in double. If only the device counts the updates, the same formulas are recorded in f64 instead.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "backends/ir/program.h"
#include "backends/ir/traced_scalar.h"
#include "schema/recipe/recipe.h"

namespace runner::optim {

using backends::Value;

// An optimizer state buffer with the shape of its parameter.
struct Slot {
  std::string_view name;  // such as "exp_avg"
  double initial = 0;
  bool from_start = false;  // torch creates it with the optimizer, not in the first update
  bool is_average = false;  // of the weights (Rule::average), which starts as a copy of them
};

struct Updated {
  Value parameters;
  std::vector<Value> slots;
  std::vector<backends::TracedScalar> numbers = {};  // of a custom rule: scalars that the device model traces
};

// An update rule of type kHook, implemented elsewhere.
class CustomRule {
 public:
  virtual ~CustomRule() = default;
  virtual std::vector<Slot> slots() const = 0;
  // As update() below. `lr`, `step`: () of the parameters' dtype; the learning rate, and the number of the update from
  // 1.
  virtual Updated update(Value parameters, Value gradient, std::span<const Value> slots, Value lr,
                         Value step) const = 0;
};

// An average of the weights, as AveragedModel of torch.optim.swa_utils keeps it: average ← (1 − rate) average + rate p.
// Until update number `start` the rate is 1, so the average equals the weights. After it, with `decay` the rate is
// 1 − decay (exponential moving average); without, it is 1 / n for the n-th averaged weights, those after the updates
// start, start + every, …, and 0 in between (equal mean).
struct WeightAverage {
  std::optional<double> decay;
  int64_t start = 1, every = 1;  // updates
};

// Returns the rate of update `step`, counted from 1. Recorded: () f64, of a number () f64.
double average_rate(const WeightAverage& average, double step);
Value average_rate(const WeightAverage& average, Value step);
// (1 − rate) average + rate value. With a rate of 1 or 0 this is exactly one of the two.
Value averaged(Value average, Value value, Value rate);

// Update rule of a parameter group.
struct Rule {
  schema::OptimizerType type = schema::OptimizerType::kSgd;
  schema::OptimizerHyper hyper;
  std::shared_ptr<const CustomRule> custom = nullptr;  // for kHook
  std::optional<WeightAverage> average = {};           // kept in the last slot
};

inline constexpr std::string_view kAverageSlot = "average";

// Returns the slots of a rule, in the order of update()'s argument and result.
std::vector<Slot> slots(const Rule& rule);

// Returns the names of the scalars, in order, for dumps.
std::vector<std::string_view> scalar_names(const Rule& rule);
size_t scalar_count(const Rule& rule);

// Hyperparameters of a step.
struct StepRates {
  double lr = 0;
  double momentum = 0;  // momentum, or β1 for the adam family and lion; changed by one_cycle
};

// Writes the scalars of update number `step` (from 1). `scalars`: as many as scalar_names().
void step_scalars(const Rule& rule, const StepRates& rates, int64_t step, std::span<double> scalars);

// As step_scalars(), recorded in a Program. All arguments and results: () f64.
struct RecordedRates {
  Value lr, momentum;
};
std::vector<Value> record_scalars(const Rule& rule, const RecordedRates& rates, Value step);

// Records the update. parameters, gradient, each slot: (n) of the same float dtype; scalars: () of that dtype.
Updated update(const Rule& rule, Value parameters, Value gradient, std::span<const Value> slots,
               std::span<const Value> scalars);

// Returns StepRates::momentum without a schedule: the momentum of sgd and rmsprop, β1 of the adam family and lion.
double base_momentum(const Rule& rule);

}  // namespace runner::optim
