#include "runner/train/step/clock_values.h"

#include "backends/ir/ops.h"
#include "runner/optim/lr_schedule.h"

namespace runner::train {
namespace {

namespace ops = backends::ops;
using backends::DType;
using backends::Shape;

Value looked_up(const ArrayValues& arrays, ClockState table) {
  const Value moves = arrays.get(Role::kClock, 0, kMoves);
  const Value row = ops::cast(ops::reshape(moves, Shape{1}), DType::kI64);
  return ops::reshape(ops::gather(arrays.get(Role::kClock, 0, table), 0, row), Shape{});
}

// Adds 1 if `applied`.
void count(ArrayValues& arrays, int32_t index, Value applied) {
  const Value before = arrays.get(Role::kClock, 0, index);
  arrays.set(ops::add(before, ops::cast(applied, DType::kF64)), Role::kClock, 0, index);
}

}  // namespace

Value clock_factor(const ArrayValues& arrays) {
  return looked_up(arrays, kFactors);
}

Value next_update(const ArrayValues& arrays, int32_t optimizer) {
  return ops::add(arrays.get(Role::kClock, 0, kFirstUpdates + optimizer), 1.0);
}

std::vector<Value> clock_scalars(const ArrayValues& arrays, const schema::SchedulerSpec& schedule,
                                 const optim::Rule& rule, Value number) {
  const Value factor = clock_factor(arrays);
  const Value momentum = optim::moves_momentum(schedule) ? looked_up(arrays, kMomenta)
                                                         : ops::full_like(factor, optim::base_momentum(rule));
  const optim::RecordedRates rates{ops::mul(factor, rule.hyper.lr), momentum};
  std::vector<Value> scalars = optim::record_scalars(rule, rates, number);
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
