// How often each optimizer has updated and how far the schedule is, where the device counts that.
//
// A step that the loss scaler leaves out moves neither, and one that leaves parameters out (parameter_use.h) counts for
// the others alone: the bias corrections and the rate of the next one follow from what the device alone knows.  Then a
// Program takes them from arrays: counts of its own, and a table of rates, which the host fills for all that may have
// been applied.  So the next step can be recorded and submitted before the one under way is done, and the host learns
// the counts when it needs them. docs/decisions/034-counts-on-the-device.md says why.  Not thread-safe; belongs to the
// training thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runner/train/step/device_arrays.h"
#include "runner/train/step/optimizers.h"
#include "runner/train/step/window.h"

namespace runner::train {

class Segment;  // segment.h

class UpdateClock {
 public:
  // All must outlive it; the arrays have memory when anything else is called.
  UpdateClock(DeviceArrays& arrays, Counters& counters, const Optimizers& optimizers);

  // Windows since the host has learned the counts.
  int64_t pending() const { return pending_; }
  // The table is full: learn() comes before the next window.
  bool is_full() const { return pending_ == kClockRows; }
  // Before a window; `rates`: those that it has if all that are pending were applied.
  void begin_window(const WindowRates& rates);
  // Waits for what is pending, and adds it to the counters.
  void learn();

  // Before a segment that steps, in place of a window; the host reads afterwards which of its steps were applied.
  void begin_segment(const Segment& segment);

 private:
  std::vector<double> updates_so_far() const;
  void begin(const std::vector<double>& updates);
  void write_row(const WindowRates& rates, int64_t row);
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
