#include "runner/report/forecast_text.h"

#include <algorithm>

#include <fmt/format.h>

#include "runner/report/device_time.h"
#include "runner/report/format.h"
#include "runner/report/table.h"
#include "schema/base/text.h"

namespace runner::report {

std::string forecast_text(const train::RunForecast& forecast, backends::tpu::Generation generation, int width,
                          bool color) {
  const backends::tpu::TpuDataSheet& row = backends::tpu::row_of(generation);
  Table table({{"graph"},
               {"tensors", Align::kRight},
               {"padded", Align::kRight},
               {"HBM", Align::kRight},
               {fmt::format("HBM of {}", row.name), Align::kRight},
               {"predicted time", Align::kRight}});
  for (const train::NamedForecast& each : forecast.graphs) {
    const backends::tpu::GraphPrediction& graph = each.graph.prediction;
    const bool fits = each.graph.exhausted.empty();
    const int64_t beyond = graph.hbm_bytes - row.hbm_bytes;
    table.add({each.name,
               bytes_text(graph.unpadded_bytes),
               bytes_text(graph.padded_bytes),
               {bytes_text(graph.hbm_bytes) + (fits ? "" : fmt::format(", {} over the limit", bytes_text(beyond))),
                fits ? Color::kNone : Color::kRed},
               bytes_text(row.hbm_bytes),
               seconds_range_text(graph.least_seconds, graph.most_seconds)});
  }
  const std::string text =
      forecast.graphs.empty()
          ? ""
          : table.render(width, color) + fmt::format("HBM includes {} that runtime and compiler of a {} reserve\n",
                                                     bytes_text(row.reserved_bytes), row.name);
  return forecast.unknown.empty() ? text : text + visible(forecast.unknown) + "\n";
}

json::Value forecast_json(const train::RunForecast& forecast, backends::tpu::Generation generation) {
  const backends::tpu::TpuDataSheet& row = backends::tpu::row_of(generation);
  const auto graph_json = [](const train::NamedForecast& each) {
    const backends::tpu::GraphPrediction& graph = each.graph.prediction;
    return json::Object{{"graph", each.name},
                        {"hbm_bytes", graph.hbm_bytes},
                        {"unpadded_bytes", graph.unpadded_bytes},
                        {"padded_bytes", graph.padded_bytes},
                        {"fits", each.graph.exhausted.empty()},
                        {"flops", graph.flops},
                        {"bytes", graph.bytes},
                        {"least_seconds", graph.least_seconds},
                        {"most_seconds", graph.most_seconds},
                        {"formula", graph.formula}};
  };
  return json::Object{{"generation", std::string(row.name)},
                      {"hbm_bytes", row.hbm_bytes},
                      {"graphs", json::list_of(forecast.graphs, graph_json)},
                      {"unknown", json::or_null(forecast.unknown)}};
}

namespace {

// Returns the complete error of the graph that exceeds the memory most, and the names of the other graphs that exceed
// it.
std::vector<std::string> exhausted_texts(const train::RunForecast& forecast) {
  std::vector<const train::NamedForecast*> beyond;
  for (const train::NamedForecast& each : forecast.graphs)
    if (!each.graph.exhausted.empty()) beyond.push_back(&each);
  const auto bytes = [](const train::NamedForecast* each) { return each->graph.prediction.hbm_bytes; };
  const auto worst = std::ranges::max_element(beyond, {}, bytes);
  std::vector<std::string> texts;
  for (const train::NamedForecast* each : beyond)
    if (each != *worst) texts.push_back(fmt::format("{} does not fit in HBM", each->name));
  if (!beyond.empty()) texts.push_back(fmt::format("{}: {}", (*worst)->name, (*worst)->graph.exhausted));
  return texts;
}

}  // namespace

std::vector<std::string> forecast_warnings(const train::RunForecast& forecast) {
  std::vector<std::string> warnings;
  for (const train::NamedForecast& each : forecast.graphs)
    for (const std::string& text : each.graph.padding)
      if (std::ranges::find(warnings, text) == warnings.end()) warnings.push_back(text);
  for (std::string& text : exhausted_texts(forecast)) warnings.push_back(std::move(text));
  return warnings;
}

}  // namespace runner::report
