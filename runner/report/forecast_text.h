// Predicted graphs of a run on an emulated TPU, as printed by `runner plan`. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "backends/tpu/tpu_data_sheet.h"
#include "runner/train/loop/graph_forecast.h"
#include "schema/base/json.h"

namespace runner::report {

// A table with a row for each graph, followed by a note on what is unknown.
std::string forecast_text(const train::RunForecast& forecast, backends::tpu::Generation generation, int width,
                          bool color);
// docs/cli.md lists the keys.
json::Value forecast_json(const train::RunForecast& forecast, backends::tpu::Generation generation);

// Warnings about memory wasted by padding, each once, and about graphs that do not fit.
std::vector<std::string> forecast_warnings(const train::RunForecast& forecast);

}  // namespace runner::report
