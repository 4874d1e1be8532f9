#include "runner/train/engine/update_clock.h"

#include <array>

#include "runner/train/step/traced_region.h"
#include "schema/base/error.h"

namespace runner::train {

UpdateClock::UpdateClock(DeviceArrays& arrays, Counters& counters, const Optimizers& optimizers)
    : arrays_(arrays),
      counters_(counters),
      optimizers_(optimizers),
      factors_(kClockRows * optimizers.names.size()),
      momenta_(kClockRows) {}

void UpdateClock::begin_step(const ScheduleRates& rates) {
  RUN_ASSERT(!is_full());
  if (pending_ == 0) begin(updates_so_far());
  schedule_steps_ = rates.schedule_steps;
  write_row(rates, pending_++);
  write_table();
}

void UpdateClock::read_counters() {
  if (pending_ == 0) return;
  pending_ = 0;
  const auto moves = static_cast<int64_t>(read(kMoves));
  counters_.applied += moves;
  counters_.scheduled += moves * schedule_steps_;
  for (size_t i = 0; i < optimizers_.names.size(); ++i)
    counters_.updates[optimizers_.names[i]] = static_cast<int64_t>(read(kFirstUpdates + static_cast<int32_t>(i)));
}

// The counters already include the updates of the region.
void UpdateClock::begin_region(const TracedRegion& region) {
  RUN_ASSERT(pending_ == 0);
  if (region.steps().empty()) return;
  std::vector<double> updates = updates_so_far();
  for (const TracedRegion::Step& step : region.steps()) --updates[static_cast<size_t>(step.optimizer)];
  begin(updates);
  for (size_t row = 0; row < region.rates().size(); ++row) write_row(region.rates()[row], static_cast<int64_t>(row));
  write_table();
}

std::vector<double> UpdateClock::updates_so_far() const {
  std::vector<double> updates;
  for (const std::string& optimizer : optimizers_.names)
    updates.push_back(static_cast<double>(counters_.updates_of(optimizer)));
  return updates;
}

void UpdateClock::begin(const std::vector<double>& updates) {
  write(kMoves, std::array{0.0});
  for (size_t i = 0; i < updates.size(); ++i)
    write(kFirstUpdates + static_cast<int32_t>(i), std::span(updates).subspan(i, 1));
}

void UpdateClock::write_row(const ScheduleRates& rates, int64_t row) {
  const size_t columns = optimizers_.names.size();
  for (size_t i = 0; i < columns; ++i)
    factors_[static_cast<size_t>(row) * columns + i] = rates.factor_of(static_cast<int32_t>(i));
  momenta_[static_cast<size_t>(row)] = rates.momentum.value_or(0);
}

void UpdateClock::write_table() {
  write(kFactors, factors_);
  write(kMomenta, momenta_);
}

void UpdateClock::write(int32_t index, std::span<const double> numbers) {
  arrays_.write(arrays_.layout().find(ArrayRole::kClock, 0, index), std::as_bytes(numbers));
}

double UpdateClock::read(int32_t index) const {
  double number = 0;
  arrays_.read(arrays_.layout().find(ArrayRole::kClock, 0, index), 0, std::as_writable_bytes(std::span(&number, 1)));
  return number;
}

}  // namespace runner::train
