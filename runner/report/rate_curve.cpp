#include "runner/report/rate_curve.h"

#include <algorithm>

#include <fmt/format.h>

#include "runner/report/format.h"

namespace runner::report {
namespace {

constexpr int kPlotHeight = 9;  // odd, so that a line is in the middle

// Learning rate of the optimizer step after `step` other steps.
double rate_at(const train::Session& session, int64_t step) {
  return session.trainer.optimizers().lr * session.schedule.factor(step * session.schedule.steps_per_update());
}

// Returns the first step of [low, high] with the highest rate. Samples about a thousand steps, then searches
// recursively next to the best one, so the cost is small for runs of any length. Can miss a peak narrower than a
// thousandth of the run.
int64_t highest_step(const train::Session& session, int64_t low, int64_t high) {
  constexpr int64_t kLooks = 1000;
  const int64_t stride = (high - low) / kLooks + 1;
  int64_t top = low;
  for (int64_t step = low; step <= high; step += std::min(stride, std::max<int64_t>(1, high - step))) {
    if (rate_at(session, step) > rate_at(session, top)) top = step;
  }
  return stride == 1 ? top : highest_step(session, std::max(low, top - stride), std::min(high, top + stride));
}

}  // namespace

RateSummary rates_of(const train::Session& session) {
  const int64_t last = session.length.total_steps - 1;
  const int64_t top = highest_step(session, 0, last);
  constexpr int kLooks = 1000;
  const std::vector<PlotPoint> curve = rate_curve(session, kLooks);
  const auto [least, most] = std::ranges::minmax(curve, {}, &PlotPoint::y);
  return {.first = rate_at(session, 0),
          .highest = rate_at(session, top),
          .last = rate_at(session, last),
          .highest_step = top + 1,
          .is_constant = least.y == most.y && most.y == rate_at(session, top)};
}

std::string rate_text(const RateSummary& rates) {
  const std::string first = rounded_text(rates.first), highest = rounded_text(rates.highest),
                    last = rounded_text(rates.last);
  if (rates.is_constant) return first + " at every step";
  const std::string maximum =
      highest == first || highest == last ? "" : fmt::format(", {} (highest) at step {}", highest, rates.highest_step);
  return fmt::format("{} at the first step{}, {} at the last step", first, maximum, last);
}

std::vector<PlotPoint> rate_curve(const train::Session& session, int count) {
  const int64_t last = session.length.total_steps - 1;
  std::vector<PlotPoint> points;
  for (int64_t i = 0; i < count; ++i) {
    const auto step = static_cast<int64_t>(static_cast<double>(last) * static_cast<double>(i) / (count - 1));
    // Short run: several points are the same step.
    if (!points.empty() && points.back().x == static_cast<double>(step + 1)) continue;
    points.push_back({static_cast<double>(step + 1), rate_at(session, step)});
  }
  return points;
}

std::string rate_plot(const train::Session& session, int width, bool color) {
  Curve curve{"", rate_curve(session, 2 * width)};
  const auto [least, most] = std::ranges::minmax(curve.points, {}, &PlotPoint::y);
  if (least.y == most.y) return "";
  return plot_text(
      {&curve, 1},
      {.title = "learning rate", .x_label = "optimizer step", .width = width, .height = kPlotHeight, .color = color});
}

}  // namespace runner::report
