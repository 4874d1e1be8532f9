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
#include <optional>
#include <span>
#include <vector>

#include "runner/optim/update_rules.h"
#include "runner/train/step/step_completion.h"
#include "schema/recipe.h"

namespace runner::train {

class Segment;
class Trainer;

// Of a step of the schedule.
struct WindowRates {
  double factor = 1;               // of every group's learning rate
  std::optional<double> momentum;  // where the schedule moves it
  int64_t schedule_steps = 1;      // that the schedule moves on with the window

  optim::StepRates of(const optim::Rule& rule) const;
  uint64_t digest() const;
};

// ---- in a Program --------------------------------------------------------------------------------------------------

inline bool has_clock(const ArrayValues& arrays) {
  return arrays.has(Role::kClock);
}

// The factor of the rates that the next step uses, () f64.
Value clock_factor(const ArrayValues& arrays);
// Number of the next update of an optimizer, from 1, () f64.
Value next_update(const ArrayValues& arrays, int32_t optimizer);
// Scalars of an update with that number, or one number for each of several, under the recipe's schedule, f32.
std::vector<Value> clock_scalars(const ArrayValues& arrays, const schema::SchedulerSpec& schedule,
                                 const optim::Rule& rule, Value number);
// An update was applied, and the schedule goes on with one, where that was.  applied: () bool.
void count_update(ArrayValues& arrays, int32_t optimizer, Value applied);
void move_schedule(ArrayValues& arrays, Value applied);

// ---- on the host ---------------------------------------------------------------------------------------------------

class UpdateClock {
 public:
  // The trainer must outlive it; its arrays are there when anything else is called.
  explicit UpdateClock(Trainer& trainer);

  // Windows since the host has learned the counts.
  int64_t pending() const { return pending_; }
  // The table is full: learn() comes before the next window.
  bool is_full() const { return pending_ == kClockRows; }
  // Before a window; `rates`: those that it has if all that are pending were applied.
  void begin_window(const WindowRates& rates);
  // Waits for what is pending, and adds it to the trainer's counters.
  void learn();

  // Before a segment that steps, in place of a window; the host reads afterwards which of its steps were applied.
  void begin_segment(const Segment& segment);

 private:
  std::vector<double> updates_so_far() const;
  void begin(const std::vector<double>& updates);
  void write_row(const WindowRates& rates, int64_t row);
  void write_table();
  void write(int32_t index, std::span<const double> numbers);
  double read(int32_t index);

  Trainer& trainer_;
  std::vector<double> factors_, momenta_;
  int64_t pending_ = 0;
  int64_t schedule_steps_ = 1;
};

}  // namespace runner::train
