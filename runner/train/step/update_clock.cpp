#include "runner/train/step/update_clock.h"

#include <array>
#include <bit>
#include <cstring>

#include "backends/graph/ops.h"
#include "runner/optim/lr_schedule.h"
#include "runner/train/step/digest.h"
#include "runner/train/step/trainer.h"
#include "schema/error.h"

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

// One more where `applied`.
void count(ArrayValues& arrays, int32_t index, Value applied) {
  const Value before = arrays.get(Role::kClock, 0, index);
  arrays.set(ops::add(before, ops::cast(applied, DType::kF64)), Role::kClock, 0, index);
}

}  // namespace

optim::StepRates WindowRates::of(const optim::Rule& rule) const {
  return {.lr = rule.hyper.lr * factor, .momentum = momentum.value_or(optim::base_momentum(rule))};
}

uint64_t WindowRates::digest() const {
  return mixed(std::bit_cast<uint64_t>(factor), std::bit_cast<uint64_t>(momentum.value_or(0)));
}

// ---- in a Program --------------------------------------------------------------------------------------------------

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

// ---- on the host ---------------------------------------------------------------------------------------------------

UpdateClock::UpdateClock(Trainer& trainer) : trainer_(trainer), factors_(kClockRows), momenta_(kClockRows) {}

void UpdateClock::begin_window(const WindowRates& rates) {
  RUN_ASSERT(!is_full());
  if (pending_ == 0) begin(updates_so_far());
  schedule_steps_ = rates.schedule_steps;
  write_row(rates, pending_++);
  write_table();
}

void UpdateClock::learn() {
  if (pending_ == 0) return;
  pending_ = 0;
  Counters& counters = trainer_.counters;
  const auto moves = static_cast<int64_t>(read(kMoves));
  counters.applied += moves;
  counters.scheduled += moves * schedule_steps_;
  const std::vector<std::string>& optimizers = trainer_.optimizers().names;
  for (size_t i = 0; i < optimizers.size(); ++i)
    counters.updates[optimizers[i]] = static_cast<int64_t>(read(kFirstUpdates + static_cast<int32_t>(i)));
}

// The trainer's counters have the steps of the segment already.
void UpdateClock::begin_segment(const Segment& segment) {
  RUN_ASSERT(pending_ == 0);
  if (segment.steps().empty()) return;
  std::vector<double> updates = updates_so_far();
  for (const Segment::Step& step : segment.steps()) --updates[static_cast<size_t>(step.optimizer)];
  begin(updates);
  for (size_t row = 0; row < segment.rates().size(); ++row) write_row(segment.rates()[row], static_cast<int64_t>(row));
  write_table();
}

std::vector<double> UpdateClock::updates_so_far() const {
  std::vector<double> updates;
  for (size_t i = 0; i < trainer_.optimizers().names.size(); ++i)
    updates.push_back(static_cast<double>(trainer_.updates_of(static_cast<int32_t>(i))));
  return updates;
}

void UpdateClock::begin(const std::vector<double>& updates) {
  write(kMoves, std::array{0.0});
  for (size_t i = 0; i < updates.size(); ++i)
    write(kFirstUpdates + static_cast<int32_t>(i), std::span(updates).subspan(i, 1));
}

void UpdateClock::write_row(const WindowRates& rates, int64_t row) {
  factors_[static_cast<size_t>(row)] = rates.factor;
  momenta_[static_cast<size_t>(row)] = rates.momentum.value_or(0);
}

void UpdateClock::write_table() {
  write(kFactors, factors_);
  write(kMomenta, momenta_);
}

void UpdateClock::write(int32_t index, std::span<const double> numbers) {
  trainer_.write(trainer_.layout().find(Role::kClock, 0, index), std::as_bytes(numbers));
}

double UpdateClock::read(int32_t index) {
  const std::vector<std::byte> bytes = trainer_.read(trainer_.layout().find(Role::kClock, 0, index));
  double number = 0;
  std::memcpy(&number, bytes.data(), sizeof number);
  return number;
}

}  // namespace runner::train
