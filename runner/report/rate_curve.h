// The planned learning rates of a run. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runner/report/plot.h"
#include "runner/train/loop/session.h"

namespace runner::report {

// Learning rates at the start, at the maximum (the end of the warm-up) and at the end of the run.
struct RateSummary {
  double first = 0, highest = 0, last = 0;
  int64_t highest_step = 1;
  bool is_constant = false;
};

RateSummary rates_of(const train::Session& session);
std::string rate_text(const RateSummary& rates);

// Learning rates at up to `count` (at least 2) evenly spaced steps, from 1 to the last.
std::vector<PlotPoint> rate_curve(const train::Session& session, int count);
// The curve as a plot of `width` columns; "" if the rate is constant.
std::string rate_plot(const train::Session& session, int width, bool color);

}  // namespace runner::report
