#include "runner/report/summary.h"

#include <algorithm>

#include <fmt/format.h>

#include "runner/report/format.h"
#include "runner/report/output.h"
#include "runner/report/run_text.h"
#include "schema/base/duration.h"
#include "schema/base/text.h"

namespace runner::report {
namespace {

std::string next_command(const train::RunResult& result) {
  const bool unfinished = result.status == store::RunStatus::kInterrupted;
  return (unfinished ? "runner resume " : "runner show ") + result.run;
}

// Table of metrics with a limited number of rows.
std::string ranges_text(const train::RunResult& result, int width, bool color) {
  constexpr size_t kMaxRows = 100;
  const auto& metrics = result.metrics;
  Table table({{"metric"}, {"last", Align::kRight}, {"min", Align::kRight}, {"max", Align::kRight}});
  size_t rows = 0;
  for (const auto& [name, range] : metrics) {
    if (++rows > kMaxRows) break;
    table.add({name, rounded_text(range.last), rounded_text(range.min), rounded_text(range.max)});
  }
  std::string text = table.render(width, color);
  if (metrics.size() > kMaxRows)
    text += fmt::format("and {} more: `runner metrics {}`\n", metrics.size() - kMaxRows, result.run);
  return text;
}

// Time that training waited for data, if that is a significant part of the total.
std::string input_text(const train::RunResult& result) {
  constexpr double kWorthAWord = 0.1, kMinSeconds = 0.5;
  const data::InputUse& input = result.input;
  const double share = result.seconds > 0 ? input.wait_seconds() / result.seconds : 0;
  if (share < kWorthAWord || input.wait_seconds() < kMinSeconds) return "";
  return fmt::format(
      "the device waited {} for input, {:.0f} % of the time: on average {:.1f} of {} prefetched batches were ready",
      duration_text(input.wait_seconds()), 100 * share, input.mean_ready(), input.ahead);
}

int64_t largest(const train::PeakMemory& peak) {
  return std::max({peak.training, peak.evaluation, peak.saving});
}

// "" unless both are known.
std::string memory_text(const train::RunResult& result) {
  const int64_t measured = largest(result.peak_memory);
  if (measured == 0 || !result.predicted_memory) return "";
  return fmt::format("peak memory {}{}, predicted {}\n", bytes_text(measured),
                     result.num_processes > 1 ? " per process" : "", bytes_text(largest(*result.predicted_memory)));
}

// "" unless a device is emulated whose time is predicted.
std::string predicted_time_text(const train::RunResult& result) {
  if (!result.gpu || result.optimizer_steps == 0) return "";
  const double samples = static_cast<double>(result.samples) / static_cast<double>(result.optimizer_steps);
  const std::optional<DeviceTime> time = gpu_time(*result.gpu, samples);
  return time ? fmt::format("predicted: {}\n", device_time_text(*time)) : "";
}

std::string graphs_text(const train::GraphUse& graphs, const std::string& run) {
  const std::string more = run.empty() ? "" : fmt::format(": `runner graphs {}`", run);
  return fmt::format("{} compiled in {}, executed {} in a predicted {}{}", count_text(graphs.compiled, "graph"),
                     duration_text(graphs.compile_seconds), count_text(graphs.executions, "time"),
                     seconds_range_text(graphs.least_seconds, graphs.most_seconds), more);
}

}  // namespace

std::string summary_text(const train::RunResult& result, int width, bool color) {
  std::string steps = count_text(result.optimizer_steps, "step");
  if (result.skipped_steps > 0) steps += fmt::format(" ({} skipped)", result.skipped_steps);
  std::string text = fmt::format(
      "run {}  {}  {} after {}{}\n", painted(result.run.empty() ? "not recorded" : result.run, Color::kBold, color),
      on_one_line(result.name), painted(store::to_string(result.status), color_of(result.status), color),
      duration_text(result.seconds),
      result.first_step_seconds ? ", first step after " + duration_text(*result.first_step_seconds) : "");
  std::string samples = count_text(result.samples, "sample");
  if (result.repeated_samples > 0) samples += fmt::format(" ({} repeated)", result.repeated_samples);
  text += fmt::format("{}, {}, {}, {}, {}\n", result.backend, count_text(result.num_processes, "process"),
                      count_text(result.epochs, "epoch"), steps, samples);
  text += memory_text(result);
  if (result.graphs) text += graphs_text(*result.graphs, result.run) + '\n';
  text += predicted_time_text(result);
  if (const std::string input = input_text(result); !input.empty()) text += input + '\n';
  if (!result.reason.empty() && !result.error) text += on_one_line(result.reason) + '\n';
  if (!result.metrics.empty()) text += '\n' + ranges_text(result, width, color);
  if (!result.states.empty()) text += fmt::format("\nstates {}\n", fmt::join(result.states, ", "));
  if (!result.run.empty()) text += fmt::format("\nnext: {}\n", next_command(result));
  return text;
}

}  // namespace runner::report
