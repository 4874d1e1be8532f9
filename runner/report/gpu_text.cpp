#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "runner/report/format.h"
#include "runner/report/run_text.h"
#include "runner/report/table.h"
#include "schema/base/duration.h"
#include "schema/base/text.h"

namespace runner::report {
namespace {

using json::member;

int64_t whole(const json::Value& value) {
  return json::integer_of(value).value_or(0);
}

double number(const json::Value& value) {
  return json::number_of(value).value_or(0);
}

// Peak values.
Table memory_table(const json::Value& gpu) {
  Table table({{"gpu", Align::kRight},
               {"memory", Align::kRight},
               {"peak reserved", Align::kRight},
               {"allocated", Align::kRight},
               {"requested", Align::kRight},
               {"fragmented", Align::kRight},
               {"retries", Align::kRight},
               {"refused", Align::kRight}});
  for (const json::Value& device : json::elements_of(member(gpu, "memory"))) {
    const auto peak = [&](std::string_view figure) {
      return bytes_text(whole(member(member(device, figure), "peak")));
    };
    table.add({std::to_string(whole(member(device, "device"))), bytes_text(whole(member(device, "limit"))),
               peak("reserved"), peak("allocated"), peak("requested"), peak("fragmented"),
               std::to_string(whole(member(device, "retries"))), std::to_string(whole(member(device, "refused")))});
  }
  return table;
}

// Times per optimizer step.
Table time_table(const json::Value& gpu) {
  const json::Value model = member(gpu, "model"), predicted = member(gpu, "predicted");
  const json::Value classes = member(predicted, "class_seconds");
  const double seconds = number(member(predicted, "seconds")), steps = number(member(predicted, "steps"));
  Table table({{fmt::format("predicted for {} (docs/gpu-model.md)", json::text_of(model))},
               {"per step", Align::kRight},
               {"share", Align::kRight}});
  if (seconds == 0 || steps == 0) return table;
  const auto add = [&](std::string_view name, double total) {
    if (total > 0)
      table.add({std::string(name), duration_text(total / steps), fmt::format("{:.1f} %", 100 * total / seconds)});
  };
  add("total", seconds);
  for (const auto& [cls, total] : json::members_of(classes)) add(cls, number(total));
  add("wait for all-reduces", number(member(predicted, "exposed_communication_seconds")));
  add("wait for batches", number(member(predicted, "exposed_copies_seconds")));
  add("wait for the host", number(member(predicted, "host_bound_share")) * seconds);
  add("at peak throughput", number(member(predicted, "peak_share")) * seconds);
  return table;
}

// What decides about the advice: figures of rank 0.
struct StepFigures {
  double seconds = 0, steps = 0;                         // of all steps, and their number
  double host = 0;                                       // share of the time that waits for the host
  double communication = 0, copies = 0, operations = 0;  // seconds
  bool is_captured = false;
};

StepFigures figures_of(const json::Value& gpu) {
  const json::Value predicted = member(gpu, "predicted");
  double operations = 0;
  for (const auto& [cls, total] : json::members_of(member(predicted, "class_seconds"))) operations += number(total);
  return {.seconds = number(member(predicted, "seconds")),
          .steps = number(member(predicted, "steps")),
          .host = number(member(predicted, "host_bound_share")),
          .communication = number(member(predicted, "exposed_communication_seconds")),
          .copies = number(member(predicted, "exposed_copies_seconds")),
          .operations = operations,
          .is_captured = member(gpu, "capture") != json::Value()};
}

StepFigures figures_of(const train::GpuDeviceUse& use) {
  using backends::gpu::to_seconds;
  const backends::gpu::PredictedTime& time = use.training;
  double operations = 0;
  for (const backends::gpu::Picoseconds busy : time.classes) operations += to_seconds(busy);
  return {.seconds = to_seconds(time.elapsed),
          .steps = static_cast<double>(use.steps),
          .host = time.host_bound_share(),
          .communication = to_seconds(time.exposed_communication()),
          .copies = to_seconds(time.exposed_copies()),
          .operations = operations,
          .is_captured = use.captures.has_value()};
}

// What limits a step, with the setting that helps; empty if nothing does. A captured step takes as long as its
// operations, because the host launches them together.
std::string advice(const StepFigures& of) {
  if (of.seconds == 0 || of.steps == 0) return {};
  constexpr double kMuch = 0.2;
  const auto waits = [&](double share, std::string_view what) {
    return fmt::format("{:.0f} % of a step waits for {}; ", 100 * share, what);
  };
  if (of.host > kMuch && of.operations < of.seconds && !of.is_captured)
    return waits(of.host, "the host") + fmt::format("with gpu.capture: true it would take about {} instead of {}",
                                                    duration_text(of.operations / of.steps),
                                                    duration_text(of.seconds / of.steps));
  if (const double share = of.communication / of.seconds; share > kMuch)
    return waits(share, "all-reduces") + "increase data.batch_size or gradient_accumulation_steps";
  if (const double share = of.copies / of.seconds; share > kMuch)
    return waits(share, "batches") + "increase data.batch_size";
  return {};
}

Table capture_table(const json::Value& gpu) {
  const json::Value capture = member(gpu, "capture");
  Table table({{"captured graphs", Align::kRight}, {"replays", Align::kRight}, {"fallbacks", Align::kRight}});
  if (capture == json::Value()) return table;
  const auto count = [&](std::string_view name) { return std::to_string(whole(member(capture, name))); };
  table.add({count("graphs"), count("replays"), count("fallbacks")});
  return table;
}

}  // namespace

std::optional<DeviceTime> gpu_time(const train::GpuUse& use, double samples_per_step) {
  const StepFigures figures = figures_of(use.devices.front());
  if (figures.seconds == 0 || figures.steps == 0) return std::nullopt;
  const double step = figures.seconds / figures.steps;
  return DeviceTime{.device = use.model,
                    .least = step,
                    .most = step,
                    .samples = samples_per_step,
                    .steps = use.devices.front().steps,
                    .advice = advice(figures)};
}

std::string gpu_text(const json::Value& gpu, int width, bool color) {
  std::string text;
  for (const Table& table : {memory_table(gpu), time_table(gpu), capture_table(gpu)})
    if (!table.empty()) text += '\n' + table.render(width, color);
  if (const std::string line = advice(figures_of(gpu)); !line.empty()) text += '\n' + visible(line) + '\n';
  return text;
}

}  // namespace runner::report
