#include "runner/report/progress.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "runner/report/format.h"
#include "runner/report/output.h"
#include "schema/base/duration.h"

namespace runner::report {
namespace {

constexpr double kRedrawSeconds = 0.1, kLineSeconds = 5;
constexpr int kBarWidth = 10;
constexpr double kNewRate = 0.3;  // weight of the newest measurement in a rate

double smoothed(double before, double newest) {
  return std::isnan(before) ? newest : before + kNewRate * (newest - before);
}

std::string bar(double done) {
  const int full = std::clamp(static_cast<int>(done * kBarWidth), 0, kBarWidth);
  std::string text;
  for (int i = 0; i < kBarWidth; ++i) text += i < full ? "█" : "░";
  return text;
}

std::string metric_words(const std::map<std::string, double>& metrics) {
  std::string text;
  for (const auto& [name, value] : metrics) text += fmt::format("  {} {}", name, rounded_text(value));
  return text;
}

}  // namespace

double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

ProgressReporter::ProgressReporter(Output& out, bool quiet, double (*clock)())
    : out_(out), quiet_(quiet), live_(out.live() && !quiet), clock_(clock) {}

ProgressReporter::~ProgressReporter() {
  erase();
}

void ProgressReporter::on_start(std::string_view run, std::string_view name) {
  if (!quiet_) print(on_one_line(fmt::format("run {}  {}", run, name)));
  next_ = clock_() + (live_ ? 0 : kLineSeconds);
}

void ProgressReporter::on_step(const train::RunProgress& progress) {
  if (quiet_) return;
  const double now = clock_();
  if (measured_step_ < 0) measure(progress, now);
  if (now < next_) return;
  measure(progress, now);
  next_ = now + (live_ ? kRedrawSeconds : kLineSeconds);
  if (!live_) return print(line(progress));
  out_.redraw_line(shortened(line(progress), std::max(out_.talk_width() - 1, 1)));
  drawn_ = true;
}

void ProgressReporter::on_evaluation(const train::RunProgress& progress, const std::map<std::string, double>& metrics) {
  if (!quiet_) print(fmt::format("step {}/{}{}", progress.step, progress.steps, metric_words(metrics)));
}

void ProgressReporter::on_warning(std::string_view text) {
  erase();
  out_.colored_talk(warning_text(text, out_.talk_color()));
}

void ProgressReporter::on_print(std::string_view text) {
  print(text);
}

void ProgressReporter::on_notice(std::string_view text) {
  if (!quiet_) print(text);
}

void ProgressReporter::measure(const train::RunProgress& progress, double now) {
  const double seconds = now - measured_;
  if (measured_step_ >= 0 && seconds > 0) {
    steps_per_s_ = smoothed(steps_per_s_, static_cast<double>(progress.step - measured_step_) / seconds);
    samples_per_s_ = smoothed(samples_per_s_, static_cast<double>(progress.samples - measured_samples_) / seconds);
  }
  measured_ = now;
  measured_step_ = progress.step;
  measured_samples_ = progress.samples;
}

std::string ProgressReporter::line(const train::RunProgress& progress) const {
  const double done = progress.steps > 0 ? static_cast<double>(progress.step) / static_cast<double>(progress.steps) : 0;
  std::string text = live_ ? bar(done) + "  " : "";
  text += fmt::format("step {}/{}", progress.step, progress.steps);
  if (progress.epochs > 0) {
    text += fmt::format("  epoch {}/{}", std::min(progress.epoch + 1, progress.epochs), progress.epochs);
  }
  if (!std::isnan(progress.loss)) text += fmt::format("  loss {:.4g}", progress.loss);
  if (!std::isnan(samples_per_s_)) {
    const double left = static_cast<double>(progress.steps - progress.step) / steps_per_s_;
    text += fmt::format("  {} left  {} samples/s", duration_text(left), short_text(samples_per_s_));
  }
  return text;
}

void ProgressReporter::print(std::string_view text) {
  erase();
  out_.talk(fmt::format("{}\n", text));
}

void ProgressReporter::erase() {
  if (drawn_) out_.redraw_line("");
  drawn_ = false;
}

}  // namespace runner::report
