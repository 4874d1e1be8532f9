// The learning rate of a run before it is made.  Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runner/report/plot.h"
#include "runner/train/loop/session.h"

namespace runner::report {

// The rate at the start, at its highest (where a warm-up ends) and at the end of the run.
struct Rates {
  double first = 0, highest = 0, last = 0;
  int64_t highest_step = 1;
};

Rates rates_of(const train::Session& session);
std::string rate_text(const Rates& rates);

// The rate at up to `count` (at least 2) steps, evenly spread, from 1 to the last.
std::vector<PlotPoint> rate_curve(const train::Session& session, int count);
// It as a plot of `width` columns; empty where the rate never changes.
std::string rate_plot(const train::Session& session, int width, bool color);

}  // namespace runner::report
