#include "runner/report/graphs.h"

#include <fmt/format.h>

#include "runner/report/device_time.h"
#include "runner/report/format.h"
#include "runner/report/table.h"
#include "schema/base/duration.h"
#include "schema/base/json.h"

namespace runner::report {
namespace {

constexpr int64_t kNsOfSecond = 1'000'000'000;
constexpr size_t kShortKey = 12;

double seconds(int64_t ns) {
  return static_cast<double>(ns) / static_cast<double>(kNsOfSecond);
}

std::string place_text(const store::GraphRow& graph) {
  return graph.file.empty() ? "" : fmt::format("{}:{}", graph.file, graph.line);
}

json::Value graph_json(int64_t attempt, const store::GraphRow& graph) {
  return json::Object{{"attempt", attempt},
                      {"key", graph.key},
                      {"first_step", graph.first_step},
                      {"cause", graph.cause},
                      {"file", json::or_null(graph.file)},
                      {"line", graph.file.empty() ? json::Value() : json::Value(graph.line)},
                      {"nodes", graph.nodes},
                      {"inputs", graph.inputs},
                      {"outputs", graph.outputs},
                      {"donated", graph.donated},
                      {"compile_seconds", seconds(graph.compile_ns)},
                      {"hbm_bytes", graph.hbm_bytes},
                      {"unpadded_bytes", graph.unpadded_bytes},
                      {"padded_bytes", graph.padded_bytes},
                      {"flops", graph.flops},
                      {"bytes", graph.bytes},
                      {"least_seconds", seconds(graph.least_ns)},
                      {"most_seconds", seconds(graph.most_ns)},
                      {"formula", graph.formula},
                      {"executions", graph.executions}};
}

std::string cause_text(const store::GraphRow& graph) {
  return graph.file.empty() ? graph.cause : fmt::format("{} ({})", graph.cause, place_text(graph));
}

struct GraphColumn {
  TableColumn column;
  bool is_left_out;  // omitted if there is little room
  std::string (*text)(const store::GraphRow& graph);
};

const GraphColumn kColumns[] = {
    {{"key"}, false, [](const store::GraphRow& graph) { return graph.key.substr(0, kShortKey); }},
    {{"step", Align::kRight}, false, [](const store::GraphRow& graph) { return std::to_string(graph.first_step); }},
    {{"runs", Align::kRight}, false, [](const store::GraphRow& graph) { return std::to_string(graph.executions); }},
    {{"compiled in", Align::kRight},
     false,
     [](const store::GraphRow& graph) { return duration_text(seconds(graph.compile_ns)); }},
    {{"nodes", Align::kRight}, false, [](const store::GraphRow& graph) { return std::to_string(graph.nodes); }},
    {{"in", Align::kRight}, true, [](const store::GraphRow& graph) { return std::to_string(graph.inputs); }},
    {{"out", Align::kRight}, true, [](const store::GraphRow& graph) { return std::to_string(graph.outputs); }},
    {{"donated", Align::kRight}, true, [](const store::GraphRow& graph) { return std::to_string(graph.donated); }},
    {{"HBM", Align::kRight}, false, [](const store::GraphRow& graph) { return bytes_text(graph.hbm_bytes); }},
    {{"predicted", Align::kRight},
     false,
     [](const store::GraphRow& graph) { return seconds_range_text(seconds(graph.least_ns), seconds(graph.most_ns)); }},
    {{"cause"}, true, cause_text},
};

// Graphs of several attempts have a column for the attempt.
Table graphs_table(std::span<const store::DeviceReport> reports, bool in_full) {
  const auto is_shown = [&](const GraphColumn& column) { return in_full || !column.is_left_out; };
  std::vector<TableColumn> columns;
  if (reports.size() > 1) columns.push_back({"attempt", Align::kRight});
  for (const GraphColumn& each : kColumns)
    if (is_shown(each)) columns.push_back(each.column);
  Table table(columns);
  for (const store::DeviceReport& device : reports) {
    for (const store::GraphRow& graph : device.graphs) {
      std::vector<Cell> cells;
      if (reports.size() > 1) cells.emplace_back(std::to_string(device.attempt));
      for (const GraphColumn& each : kColumns)
        if (is_shown(each)) cells.emplace_back(each.text(graph));
      table.add(cells);
    }
  }
  return table;
}

// Adds a line with the omitted columns after each row of a table.
std::string with_lines_below(const std::string& table, std::span<const store::DeviceReport> reports) {
  std::string text;
  size_t begin = table.find('\n') + 1;
  text.append(table, 0, begin);
  for (const store::DeviceReport& device : reports) {
    for (const store::GraphRow& graph : device.graphs) {
      const size_t end = table.find('\n', begin) + 1;
      text.append(table, begin, end - begin);
      text += fmt::format("  {} inputs, {} outputs, {} donated: {}\n", graph.inputs, graph.outputs, graph.donated,
                          on_one_line(cause_text(graph)));
      begin = end;
    }
  }
  return text;
}

}  // namespace

std::string graphs_text(std::span<const store::DeviceReport> reports, int width, bool color) {
  const Table in_full = graphs_table(reports, true);
  if (width == 0 || in_full.width() <= width) return in_full.render(width, color);
  return with_lines_below(graphs_table(reports, false).render(width, color), reports);
}

std::string graphs_document(std::span<const store::DeviceReport> reports) {
  json::List graphs;
  for (const store::DeviceReport& device : reports)
    for (const store::GraphRow& graph : device.graphs) graphs.push_back(graph_json(device.attempt, graph));
  return json::text(graphs);
}

std::string graph_text(const store::GraphRow& graph, bool color) {
  KeyValueTable facts;
  facts.add("graph", graph.key);
  facts.add("cause", graph.cause);
  facts.add("line", place_text(graph));
  facts.add("first run", fmt::format("at training batch {}", graph.first_step));
  facts.add("executions", std::to_string(graph.executions));
  facts.add("compiled in", duration_text(seconds(graph.compile_ns)));
  facts.add("nodes", std::to_string(graph.nodes));
  facts.add("tensors", fmt::format("{} inputs, {} outputs, {} of them in donated buffers", graph.inputs, graph.outputs,
                                   graph.donated));
  facts.add("HBM", fmt::format("{}: tensors {}, {} without padding", bytes_text(graph.hbm_bytes),
                               bytes_text(graph.padded_bytes), bytes_text(graph.unpadded_bytes)));
  facts.add("work",
            fmt::format("{}flops, {} moved", short_text(static_cast<double>(graph.flops)), bytes_text(graph.bytes)));
  facts.add("predicted", graph.formula);
  return facts.render(color);
}

}  // namespace runner::report
