#include "store/device_report.h"

#include <gtest/gtest.h>

#include "store/removal.h"
#include "store/run_writer.h"
#include "store/sqlite.h"
#include "tests/store/temp_store.h"

namespace runner::store {
namespace {

GraphRow sample_graph(const std::string& key) {
  return {.key = key,
          .first_step = 2,
          .cause = "features is (4, 8) f32, and was (32, 8) f32",
          .file = "h.lua",
          .line = 7,
          .nodes = 91,
          .inputs = 15,
          .outputs = 14,
          .donated = 5,
          .compile_ns = 1'628'095,
          .executions = 3,
          .hbm_bytes = int64_t{5} << 30,
          .flops = 368'661,
          .bytes = 563'200,
          .unpadded_bytes = 15'316,
          .padded_bytes = 144'384,
          .least_ns = 34'252,
          .most_ns = 97'862,
          .formula = "t to t / 0.35",
          .texts = std::make_shared<const GraphTexts>(GraphTexts{.ir = "IR {\n}\n", .hlo = "HloModule x\n"})};
}

class DeviceReports : public WritableStoreTest {
 protected:
  void put(const RunHandle& of, const DeviceReport& report) {
    commit([&] { put_device_report(store, of, report); });
  }

  RunHandle run = create_run(store, sample_run());
};

TEST_F(DeviceReports, RoundTrip) {
  EXPECT_TRUE(read_device_reports(store, run.id).empty());
  put(run, {.graphs = {sample_graph("a"), sample_graph("b")}, .metrics_json = R"({"counters":{"MarkStep":3}})"});
  const std::vector<DeviceReport> reports = read_device_reports(store, run.id, /*texts=*/true);
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].attempt, 1);
  EXPECT_EQ(reports[0].metrics_json, R"({"counters":{"MarkStep":3}})");
  ASSERT_EQ(reports[0].graphs.size(), 2u);
  EXPECT_EQ(reports[0].graphs[0].key, "a");
  const GraphRow &graph = reports[0].graphs[1], want = sample_graph("b");
  EXPECT_EQ(graph.key + graph.cause + graph.file + graph.formula + graph.texts->ir + graph.texts->hlo,
            want.key + want.cause + want.file + want.formula + want.texts->ir + want.texts->hlo);
  EXPECT_EQ((std::vector{graph.first_step, graph.line, graph.nodes, graph.inputs, graph.outputs, graph.donated,
                         graph.compile_ns, graph.executions, graph.hbm_bytes, graph.flops, graph.bytes,
                         graph.unpadded_bytes, graph.padded_bytes, graph.least_ns, graph.most_ns}),
            (std::vector{want.first_step, want.line, want.nodes, want.inputs, want.outputs, want.donated,
                         want.compile_ns, want.executions, want.hbm_bytes, want.flops, want.bytes, want.unpadded_bytes,
                         want.padded_bytes, want.least_ns, want.most_ns}));
  EXPECT_EQ(read_device_reports(store, run.id)[0].graphs[1].texts, nullptr)
      << "texts are not loaded, because they are long";
}

TEST_F(DeviceReports, GraphsAreOnlyAdded) {
  put(run, {.graphs = {sample_graph("a"), sample_graph("b")}, .metrics_json = "{}"});
  GraphRow again = sample_graph("a");
  again.executions = 9;
  again.texts = nullptr;  // texts already stored are not needed again
  put(run, {.graphs = {again, sample_graph("b"), sample_graph("c")}, .metrics_json = "[]"});
  const std::vector<DeviceReport> reports = read_device_reports(store, run.id, /*texts=*/true);
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].metrics_json, "[]");
  std::string graphs;
  for (const GraphRow& graph : reports[0].graphs)
    graphs += fmt::format("{} {} {}", graph.key, graph.executions, graph.texts->hlo);
  EXPECT_EQ(graphs, "a 9 HloModule x\nb 3 HloModule x\nc 3 HloModule x\n");
}

TEST_F(DeviceReports, WrittenByRunWriterAndRemovedWithTheRun) {
  RunWriter writer(open_to_write(), sample_run("other"));
  const RunHandle handle = writer.wait_until_recorded();
  writer.device_report({.graphs = {sample_graph("a")}, .metrics_json = "{}"});
  writer.finish({});
  EXPECT_EQ(read_device_reports(store, handle.id).size(), 1u);
  remove_run(store, handle.id);
  EXPECT_EQ(store.database().query_int64("SELECT count(*) FROM graph"), 0);
  EXPECT_EQ(store.database().query_int64("SELECT count(*) FROM device_metrics"), 0);
}

}  // namespace
}  // namespace runner::store
