#include "store/device_report.h"

#include <span>

#include "store/sqlite.h"

namespace runner::store {
namespace {

constexpr const char* kGraphColumns =
    "no, key, first_step, cause, file, line, nodes, inputs, outputs, donated, compile_ns, executions, hbm_bytes, "
    "flops, bytes, unpadded_bytes, padded_bytes, least_ns, most_ns, formula";

int64_t count_graphs(Database& database, const RunHandle& run) {
  Statement count(database, "SELECT count(*) FROM graph WHERE run_id = ?1 AND attempt = ?2");
  count.bind(run.id, run.attempt).step();
  return count.int64(0);
}

void update_graphs(Database& database, const RunHandle& run, std::span<const GraphRow> graphs) {
  Statement update(database,
                   "UPDATE graph SET executions = ?4 WHERE run_id = ?1 AND attempt = ?2 AND no = ?3 AND "
                   "executions <> ?4");
  int64_t no = 0;
  for (const GraphRow& graph : graphs) update.bind(run.id, run.attempt, ++no, graph.executions).run();
}

// `no`: number of graphs that the attempt already has.
void insert_graphs(Database& database, const RunHandle& run, int64_t no, std::span<const GraphRow> graphs) {
  Statement insert(database, fmt::format("INSERT INTO graph(run_id, attempt, {}, ir, hlo) VALUES(?1, ?2, ?3, ?4, ?5, "
                                         "?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, "
                                         "?22, ?23, ?24)",
                                         kGraphColumns));
  static const GraphTexts kNone;
  for (const GraphRow& graph : graphs) {
    const GraphTexts& texts = graph.texts ? *graph.texts : kNone;
    insert
        .bind(run.id, run.attempt, ++no, graph.key, graph.first_step, graph.cause, graph.file, graph.line, graph.nodes,
              graph.inputs, graph.outputs, graph.donated, graph.compile_ns, graph.executions, graph.hbm_bytes,
              graph.flops, graph.bytes, graph.unpadded_bytes, graph.padded_bytes, graph.least_ns, graph.most_ns,
              graph.formula, texts.ir, texts.hlo)
        .run();
  }
}

GraphRow graph_in(const Statement& row, bool texts) {
  GraphRow graph;
  graph.key = row.text(1);
  graph.first_step = row.int64(2);
  graph.cause = row.text(3);
  graph.file = row.text(4);
  int column = 5;
  for (int64_t* number : {&graph.line, &graph.nodes, &graph.inputs, &graph.outputs, &graph.donated, &graph.compile_ns,
                          &graph.executions, &graph.hbm_bytes, &graph.flops, &graph.bytes, &graph.unpadded_bytes,
                          &graph.padded_bytes, &graph.least_ns, &graph.most_ns})
    *number = row.int64(column++);
  graph.formula = row.text(column++);
  if (texts) {
    GraphTexts kept{.ir = row.text(column), .hlo = row.text(column + 1)};
    if (!kept.ir.empty()) graph.texts = std::make_shared<const GraphTexts>(std::move(kept));
  }
  return graph;
}

}  // namespace

void put_device_report(Store& store, const RunHandle& run, const DeviceReport& report) {
  Database& database = store.database();
  const int64_t known = count_graphs(database, run);
  const std::span<const GraphRow> graphs(report.graphs);
  update_graphs(database, run, graphs.first(static_cast<size_t>(known)));
  insert_graphs(database, run, known, graphs.subspan(static_cast<size_t>(known)));
  Statement(database, "INSERT OR REPLACE INTO device_metrics(run_id, attempt, json) VALUES(?1, ?2, ?3)")
      .bind(run.id, run.attempt, report.metrics_json)
      .run();
}

DeviceMetrics newest_device_metrics(Store& store, int64_t run_id) {
  Statement metrics(store.database(),
                    "SELECT attempt, json FROM device_metrics WHERE run_id = ?1 ORDER BY attempt DESC LIMIT 1");
  if (!metrics.bind(run_id).step()) return {};
  return {metrics.int64(0), metrics.text(1)};
}

std::vector<DeviceReport> read_device_reports(Store& store, int64_t run_id, bool texts) {
  std::vector<DeviceReport> reports;
  Statement metrics(store.database(), "SELECT attempt, json FROM device_metrics WHERE run_id = ?1 ORDER BY attempt");
  for (metrics.bind(run_id); metrics.step();) reports.push_back({metrics.int64(0), {}, metrics.text(1)});
  Statement graphs(store.database(),
                   fmt::format("SELECT {}{} FROM graph WHERE run_id = ?1 AND attempt = ?2 ORDER BY no", kGraphColumns,
                               texts ? ", ir, hlo" : ""));
  for (DeviceReport& report : reports)
    for (graphs.bind(run_id, report.attempt); graphs.step();) report.graphs.push_back(graph_in(graphs, texts));
  return reports;
}

}  // namespace runner::store
