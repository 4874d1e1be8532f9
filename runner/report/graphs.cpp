#include "runner/report/graphs.h"

#include <fmt/format.h>

#include "runner/report/forecast_text.h"
#include "runner/report/format.h"
#include "schema/json.h"

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

}  // namespace

Table graphs_table(std::span<const store::DeviceAccount> accounts) {
  Table table({{"key"},
               {"step", Align::kRight},
               {"runs", Align::kRight},
               {"compiled in", Align::kRight},
               {"nodes", Align::kRight},
               {"in", Align::kRight},
               {"out", Align::kRight},
               {"donated", Align::kRight},
               {"HBM", Align::kRight},
               {"predicted", Align::kRight},
               {"cause"}});
  for (const store::DeviceAccount& account : accounts)
    for (const store::GraphRow& graph : account.graphs)
      table.add({graph.key.substr(0, kShortKey), std::to_string(graph.first_step), std::to_string(graph.executions),
                 duration_text(seconds(graph.compile_ns)), std::to_string(graph.nodes), std::to_string(graph.inputs),
                 std::to_string(graph.outputs), std::to_string(graph.donated), bytes_text(graph.hbm_bytes),
                 predicted_text(seconds(graph.least_ns), seconds(graph.most_ns)), graph.cause});
  return table;
}

std::string graphs_document(std::span<const store::DeviceAccount> accounts) {
  json::List graphs;
  for (const store::DeviceAccount& account : accounts)
    for (const store::GraphRow& graph : account.graphs) graphs.push_back(graph_json(account.attempt, graph));
  return json::text(graphs);
}

std::string graph_text(const store::GraphRow& graph, bool color) {
  Facts facts;
  facts.add("graph", graph.key);
  facts.add("cause", graph.cause);
  facts.add("line", place_text(graph));
  facts.add("first run", fmt::format("in training batch {}", graph.first_step));
  facts.add("executions", std::to_string(graph.executions));
  facts.add("compiled in", duration_text(seconds(graph.compile_ns)));
  facts.add("nodes", std::to_string(graph.nodes));
  facts.add("tensors", fmt::format("{} in, {} out, of which {} take the memory of an input", graph.inputs,
                                   graph.outputs, graph.donated));
  facts.add("HBM", fmt::format("{}, of which tensors {}, without padding {}", bytes_text(graph.hbm_bytes),
                               bytes_text(graph.padded_bytes), bytes_text(graph.unpadded_bytes)));
  facts.add("work",
            fmt::format("{}flops, {} moved", short_text(static_cast<double>(graph.flops)), bytes_text(graph.bytes)));
  facts.add("predicted", graph.formula);
  return facts.render(color);
}

}  // namespace runner::report
