// Shows the progress of a run on stderr: one redrawn line on a terminal; otherwise a line every few seconds and after
// evaluations.
//
// Used by the training thread only. A step reads the clock once; the terminal is updated ten times per second.
#pragma once

#include <cmath>
#include <map>
#include <string>
#include <string_view>

#include "runner/report/output.h"
#include "runner/train/run/run.h"

namespace runner::report {

// Seconds of a monotonic clock.
double monotonic_seconds();

class ProgressReporter : public train::Observer {
 public:
  // `quiet`: show warnings only. `clock`: replaced in tests.
  ProgressReporter(Output& out, bool quiet, double (*clock)() = monotonic_seconds);
  // Erases the redrawn line.
  ~ProgressReporter() override;

  void on_start(std::string_view run, std::string_view name) override;
  void on_step(const train::RunProgress& progress) override;
  void on_evaluation(const train::RunProgress& progress, const std::map<std::string, double>& metrics) override;
  void on_warning(std::string_view text) override;
  void on_print(std::string_view text) override;
  void on_notice(std::string_view text) override;

 private:
  void measure(const train::RunProgress& progress, double now);
  std::string line(const train::RunProgress& progress) const;
  void print(std::string_view text);  // prints above the redrawn line
  void erase();

  Output& out_;
  const bool quiet_, live_;
  double (*const clock_)();
  double next_ = 0;  // time at which the next line is due
  double measured_ = 0;
  int64_t measured_step_ = -1, measured_samples_ = 0;
  double steps_per_s_ = NAN, samples_per_s_ = NAN;
  bool drawn_ = false;
};

}  // namespace runner::report
