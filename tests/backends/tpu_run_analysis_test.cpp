// Warnings about a run's graphs at its end: triggers, differences, source lines.
#include <gtest/gtest.h>

#include "backends/backend.h"
#include "backends/tpu/run_analysis.h"

namespace runner::backends::tpu {
namespace {

struct Made {
  MissKind kind;
  std::string cause = "";
  int64_t step = 1;
  SourceMark line = {};
  std::string output = "loss";
};

Graph graph_of(const Made& made) {
  Program program;
  program.set_mark({"mnist.lua", 12, 0});
  program.output(made.output, program.constant(1, {}));
  Graph graph;
  graph.identity.program = std::make_shared<const Program>(program);
  graph.kind = made.kind;
  graph.cause = made.cause;
  graph.line = made.line;
  graph.first_step = made.step;
  graph.compile_ns = 250'000'000;
  graph.executions = 1;
  return graph;
}

std::vector<std::string> said(const std::vector<Made>& graphs, const RunFigures& figures) {
  std::deque<Graph> all;
  for (const Made& made : graphs) all.push_back(graph_of(made));
  return analysis_of(all, figures);
}

using Texts = std::vector<std::string>;

TEST(TpuRunAnalysis, IsEmptyForAGoodRun) {
  EXPECT_EQ(said({}, {}), Texts());
  EXPECT_EQ(said({{MissKind::kFirst}, {MissKind::kState, "x", 2}, {MissKind::kStructure, "y", 4}}, {.batches = 9}),
            Texts());
}

TEST(TpuRunAnalysis, ReportsBatchSizesAndScalars) {
  EXPECT_EQ(
      said({{MissKind::kFirst}, {MissKind::kBatchSize, "features is (4, 8) f32, and was (32, 8) f32", 4}},
           {.batches = 12}),
      (Texts{"another batch size has made a graph, which took 0.25 s to compile, last at training batch 4: features is "
             "(4, 8) f32, and was (32, 8) f32; data.drop_last: true leaves out the short batch of an epoch, and "
             "eval.batch_size like data.batch_size gives evaluations the size of training"}));
  EXPECT_EQ(
      said({{MissKind::kFirst}, {MissKind::kNumber, "a", 7}, {MissKind::kNumber, "-lr was -0.1 and is 0 now", 9}},
           {.batches = 12}),
      (Texts{"numbers alone have made 2 graphs, which took 0.5 s to compile, last at training batch 9: -lr was -0.1 "
             "and is 0 now; numbers that reach neither 0 nor 1 nor each other make none, and tpu.dialect: clean shows "
             "the run "
             "without"}));
}

TEST(TpuRunAnalysis, ReportsExponents) {
  EXPECT_EQ(
      said({{MissKind::kFirst}, {MissKind::kAttribute, "p was 2 f64 and is 3 f64 now", 4, {"h.lua", 5, 0}}},
           {.batches = 12}),
      (Texts{"exponents have made a graph, which took 0.25 s to compile, last at training batch 4: p was 2 f64 and "
             "is 3 f64 now (h.lua:5); each value of x ^ p is a graph of its own, and (p * x:log()):exp() takes p "
             "as an input"}));
}

// More than one graph per two batches, after at least ten batches. Graphs loaded from a store were not compiled.
TEST(TpuRunAnalysis, ReportsContinuedCompilationInsteadOfBatchSizes) {
  std::vector<Made> graphs;
  for (int64_t step = 1; step <= 6; ++step)
    graphs.push_back({MissKind::kBatchSize, "its shape", step, {"h.lua", 3, 0}});
  EXPECT_EQ(
      said(graphs, {.batches = 10}),
      (Texts{"graphs are still being compiled at training batch 6: 10 batches have made 6 graphs, which took 1.5 s to "
             "compile; the newest: its shape (h.lua:3)"}));
  EXPECT_EQ(said(graphs, {.batches = 9}).at(0).substr(0, 26), "another batch size has mad");
  EXPECT_EQ(said(graphs, {.batches = 12}).at(0).substr(0, 26), "another batch size has mad") << "half of them";
  for (Made& made : graphs) made.kind = MissKind::kStored;
  EXPECT_EQ(said(graphs, {.batches = 10}), Texts());
}

TEST(TpuRunAnalysis, ReportsReadsWithTheirLine) {
  const std::vector<Made> graphs{{MissKind::kFirst}, {MissKind::kStored, "", 1, {}, std::string(kReadOutput)}};
  EXPECT_EQ(said(graphs, {.batches = 10, .reads = 25}),
            (Texts{"a hook reads values of tensors, 2.5 in each training batch, of the tensor made at mnist.lua:12: "
                   "each read cuts the "
                   "step, runs what it needs by itself, and waits for the device; return it as a metric, or read it in "
                   "every n-th step"}));
  EXPECT_EQ(said(graphs, {.batches = 10, .reads = 5}), Texts());
}

}  // namespace
}  // namespace runner::backends::tpu
