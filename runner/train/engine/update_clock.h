// Device-side counters: the updates of each optimizer and the position in the schedule.
//
// A step that the loss scaler skips advances neither, and a step that skips parameters (parameter_use.h) counts only
// for the others. So the bias corrections and the learning rate of the next step depend on what only the device knows.
// Programs then read them from arrays: counters, and a table of rates that the host fills for every possible outcome.
// The next step can thus be recorded and submitted while the current one is in flight, and the host reads the counters
// when it needs them. Rationale: docs/decisions/034-device-update-counters.md. Not thread-safe; belongs to the training
// thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runner/train/engine/device_arrays.h"
#include "runner/train/step/optimizer_step.h"
#include "runner/train/step/optimizers.h"

namespace runner::train {

class TracedRegion;  // traced_region.h

class UpdateClock {
 public:
  // All arguments must outlive the object. The arrays must be allocated before any other call.
  UpdateClock(DeviceArrays& arrays, Counters& counters, const Optimizers& optimizers);

  // Number of optimizer steps since the host last read the counters.
  int64_t pending() const { return pending_; }
  // Whether the rate table is full, so that read_counters() must be called before the next optimizer step.
  bool is_full() const { return pending_ == kClockRows; }
  // Call before an optimizer step. `rates`: its rates if all pending steps are applied.
  void begin_step(const ScheduleRates& rates);
  // Waits for pending steps and updates the host's counters.
  void read_counters();

  // Like begin_step(), for a traced region with updates. The host reads afterwards which of them were applied.
  void begin_region(const TracedRegion& region);

 private:
  std::vector<double> updates_so_far() const;
  void begin(const std::vector<double>& updates);
  void write_row(const ScheduleRates& rates, int64_t row);
  void write_table();
  void write(int32_t index, std::span<const double> numbers);
  double read(int32_t index) const;

  DeviceArrays& arrays_;
  Counters& counters_;
  const Optimizers& optimizers_;
  std::vector<double> factors_, momenta_;
  int64_t pending_ = 0;
  int64_t schedule_steps_ = 1;
};

}  // namespace runner::train
