#include "runner/train/step/clock_values.h"

#include "backends/ir/ops.h"
#include "runner/optim/lr_schedule.h"

namespace runner::train {
namespace {

namespace ops = backends::ops;
using backends::DType;
using backends::Shape;

// Returns the number of `column` in the current row of a table.
Value looked_up(const ArrayValues& arrays, ClockState table, int32_t column) {
  const Value numbers = arrays.get(ArrayRole::kClock, 0, table);
  const int64_t columns = numbers.shape()[0] / kClockRows;
  Value at = arrays.get(ArrayRole::kClock, 0, kMoves);
  if (columns > 1) at = ops::add(ops::mul(at, static_cast<double>(columns)), static_cast<double>(column));
  return ops::reshape(ops::gather(numbers, 0, ops::cast(ops::reshape(at, Shape{1}), DType::kI64)), Shape{});
}

// Adds 1 if `applied`.
void count(ArrayValues& arrays, int32_t index, Value applied) {
  const Value before = arrays.get(ArrayRole::kClock, 0, index);
  arrays.set(ops::add(before, ops::cast(applied, DType::kF64)), ArrayRole::kClock, 0, index);
}

}  // namespace

Value clock_factor(const ArrayValues& arrays, int32_t optimizer) {
  return looked_up(arrays, kFactors, optimizer);
}

Value next_update(const ArrayValues& arrays, int32_t optimizer) {
  return ops::add(arrays.get(ArrayRole::kClock, 0, kFirstUpdates + optimizer), 1.0);
}

std::vector<Value> clock_scalars(const ArrayValues& arrays, const schema::SchedulerSpec& schedule,
                                 const OptimizerGroup& group, Value number) {
  const Value factor = clock_factor(arrays, group.optimizer);
  const Value momentum = optim::moves_momentum(schedule) ? looked_up(arrays, kMomenta, 0)
                                                         : ops::full_like(factor, optim::base_momentum(group.rule));
  const optim::RecordedRates rates{ops::mul(factor, group.rule.hyper.lr), momentum};
  std::vector<Value> scalars = optim::record_scalars(group.rule, rates, number);
  for (Value& scalar : scalars) scalar = ops::cast(scalar, DType::kF32);
  return scalars;
}

void count_update(ArrayValues& arrays, int32_t optimizer, Value applied) {
  count(arrays, kFirstUpdates + optimizer, applied);
}

void move_schedule(ArrayValues& arrays, Value applied) {
  count(arrays, kMoves, applied);
}

}  // namespace runner::train
