// The optimizers: how parameters, gradients and slots become new parameters and slots.
//
// A rule records element-wise ops over whole flat buffers, so one fused kernel updates a parameter group.  Rules follow
// torch.optim's single-tensor code, sgd to adagrad, and arXiv 2302.06675 algorithm 2 for lion; slots carry torch's
// names. What changes from step to step (rates, bias corrections) enters as scalars: computed on the host in double,
// or, where the device alone counts the updates, recorded in f64, by the same formulas.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "backends/ir/program.h"
#include "backends/ir/traced_scalar.h"
#include "schema/recipe.h"

namespace runner::optim {

using backends::Value;

// A buffer that the optimizer keeps beside each parameter, of the parameter's shape.
struct Slot {
  std::string_view name;  // "exp_avg"
  double initial = 0;
  bool from_start = false;  // torch's optimizer makes it when it is made itself, not in its first update
};

struct Updated {
  Value parameters;
  std::vector<Value> slots;
  std::vector<backends::TracedScalar> numbers = {};  // of a rule written elsewhere: what a device is told of beside
};

// A rule of type kHook, written elsewhere.
class CustomRule {
 public:
  virtual ~CustomRule() = default;
  virtual std::vector<Slot> slots() const = 0;
  // lr, step: () of the parameters' dtype, the rate and the number of the update from 1; otherwise as update() below.
  virtual Updated update(Value parameters, Value gradient, std::span<const Value> slots, Value lr,
                         Value step) const = 0;
};

// How a group of parameters is updated.
struct Rule {
  schema::OptimizerType type = schema::OptimizerType::kSgd;
  schema::OptimizerHyper hyper;
  std::shared_ptr<const CustomRule> custom = nullptr;  // kHook
};

// The slots of a rule, in the order in which update() takes and gives them.
std::vector<Slot> slots(const Rule& rule);

// The names of the step's scalars, in order, for dumps.
std::span<const std::string_view> scalar_names(schema::OptimizerType type);

// The hyperparameters in force at a step.
struct StepRates {
  double lr = 0;
  double momentum = 0;  // momentum, or beta1 for the adam family: one_cycle moves them
};

// Values of the scalars for update number `step` (from 1), written to `scalars` (as many as scalar_names).
void step_scalars(const Rule& rule, const StepRates& rates, int64_t step, std::span<double> scalars);

// The same as values of a Program, where lr, momentum and the number of the update are: () f64, as the results.
struct RecordedRates {
  Value lr, momentum;
};
std::vector<Value> record_scalars(const Rule& rule, const RecordedRates& rates, Value step);

// parameters, gradient, each slot: (n) of one float dtype; scalars: () of that dtype.
Updated update(const Rule& rule, Value parameters, Value gradient, std::span<const Value> slots,
               std::span<const Value> scalars);

// momentum for sgd and rmsprop, beta1 for the adam family: what StepRates::momentum is without a schedule.
double base_momentum(const Rule& rule);

}  // namespace runner::optim
