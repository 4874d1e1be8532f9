// Graphs compiled by an emulated TPU, as tables and documents. Thread-safe.
#pragma once

#include <span>
#include <string>

#include "store/device_report.h"

namespace runner::report {

// A row for each graph of each attempt, in the order of compilation. If `width` is too small for all columns, each row
// is followed by a line with the rest. `width`: 0 for no limit.
std::string graphs_text(std::span<const store::DeviceReport> reports, int width, bool color);
// docs/cli.md lists the keys.
std::string graphs_document(std::span<const store::DeviceReport> reports);
// All facts about one graph, including the formula of its prediction.
std::string graph_text(const store::GraphRow& graph, bool color);

}  // namespace runner::report
