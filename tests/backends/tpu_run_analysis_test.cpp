// Warnings about a run's graphs at its end: triggers, differences, source lines.
#include <gtest/gtest.h>

#include "backends/exec/backend.h"
#include "backends/tpu/run_analysis.h"

namespace runner::backends::tpu {
namespace {

struct Made {
  MissKind kind;
  std::string cause = "";
  int64_t step = 1;
  SourceMark line = {};
  bool is_read = false;
  GraphRole role = GraphRole::kUpdate;
  bool evaluates = false;
  std::string_view output = kReadItem;
};

Graph graph_of(const Made& made) {
  Program program;
  program.set_mark({"mnist.lua", 12, 0});
  program.output({.name = std::string(made.output), .value = program.constant(1, {}), .is_read = made.is_read});
  Graph graph(made.is_read ? GraphRole::kRead : made.role);
  graph.identity.program = std::make_shared<const Program>(program);
  graph.cause = {made.cause, made.line, made.kind};
  graph.first_step = made.step;
  graph.compile_ns = 250'000'000;
  graph.executions = 1;
  graph.evaluates = made.evaluates;
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
      said({{MissKind::kFirst}, {MissKind::kBatchSize, "features changed from (32, 8) f32 to (4, 8) f32", 4}},
           {.batches = 12}),
      (Texts{"new batch sizes in training caused a graph, which took 0.25 s to compile, last at training batch 4: "
             "features changed from (32, 8) f32 to (4, 8) f32; set data.drop_last: true to drop the short batch of an "
             "epoch"}));
  const Made short_read{
      .kind = MissKind::kBatchSize, .cause = "labels changed", .step = 5, .is_read = true, .evaluates = true};
  EXPECT_EQ(said({{MissKind::kFirst},
                  {.kind = MissKind::kBatchSize, .cause = "features changed", .step = 4, .role = GraphRole::kForward},
                  short_read},
                 {.batches = 12}),
            (Texts{"new batch sizes in evaluations caused 2 graphs, which took 0.50 s to compile, last at training "
                   "batch 5: labels changed; set eval.pad_last: true to fill up the short batch of an evaluation, or "
                   "eval.drop_last: true to drop it"}));
}

// Where they are dropped or filled up, the hook makes them.
TEST(TpuRunAnalysis, ReportsBatchSizesOfARecipeWithoutShortBatches) {
  const std::string same_shapes = "use the same shapes in every batch (nn.where or a mask in place of slices)";
  const ShortBatches prevented{.dropped_in_training = true, .filled_in_evaluations = true};
  const std::vector<std::string> texts =
      said({{MissKind::kFirst},
            {.kind = MissKind::kBatchSize, .cause = "x", .step = 3},
            {.kind = MissKind::kBatchSize, .cause = "y", .step = 4, .role = GraphRole::kForward, .evaluates = true}},
           {.batches = 12, .short_batches = prevented});
  ASSERT_EQ(texts.size(), 2U);
  EXPECT_EQ(texts[0],
            "new batch sizes in training caused a graph, which took 0.25 s to compile, last at training batch 3: x; " +
                same_shapes);
  EXPECT_EQ(texts[1],
            "new batch sizes in evaluations caused a graph, which took 0.25 s to compile, last at training batch 4: "
            "y; " +
                same_shapes);
}

std::vector<Made> graphs_of(MissKind kind, const std::string& cause, int count, const SourceMark& line = {}) {
  std::vector<Made> graphs{{MissKind::kFirst}};
  for (int i = 1; i <= count; ++i) graphs.push_back({.kind = kind, .cause = cause, .step = i, .line = line});
  return graphs;
}

// Five graphs in more than every tenth batch, or two seconds of compilation that are a tenth of the run.
TEST(TpuRunAnalysis, ReportsNumbersThatCostTime) {
  const std::string cause = "-lr changed from -0.1 to 0";
  EXPECT_EQ(
      said(graphs_of(MissKind::kNumber, cause, 5), {.batches = 40}),
      (Texts{"numbers whose value changed caused 5 graphs, which took 1.25 s to compile, last at training batch 5: -lr "
             "changed from -0.1 to 0; avoid the values 0, 1 and -1, and equal numbers; "
             "tpu.dialect: clean shows the run without this rule"}));
  EXPECT_EQ(said(graphs_of(MissKind::kNumber, cause, 5), {.batches = 50}), Texts());
  EXPECT_EQ(said(graphs_of(MissKind::kNumber, cause, 4), {.batches = 30}), Texts());
  EXPECT_EQ(said(graphs_of(MissKind::kNumber, cause, 8), {.batches = 1000, .seconds = 19}).size(), 1U);
  EXPECT_EQ(said(graphs_of(MissKind::kNumber, cause, 8), {.batches = 1000, .seconds = 21}), Texts());
}

TEST(TpuRunAnalysis, ReportsExponents) {
  EXPECT_EQ(
      said(graphs_of(MissKind::kAttribute, "p changed from 2 f64 to 3 f64", 5, {"h.lua", 5, 0}), {.batches = 12}),
      (Texts{"changed exponents caused 5 graphs, which took 1.25 s to compile, last at training batch 5: p "
             "changed from 2 f64 to 3 f64 (h.lua:5); each exponent p of x ^ p is a separate graph; (p * x:log()):exp() "
             "takes p as an input"}));
}

// More than one graph per two batches, after at least ten batches. Graphs loaded from a store were not compiled.
TEST(TpuRunAnalysis, ReportsContinuedCompilationInsteadOfBatchSizes) {
  std::vector<Made> graphs;
  for (int64_t step = 1; step <= 6; ++step)
    graphs.push_back({MissKind::kBatchSize, "its shape", step, {"h.lua", 3, 0}});
  EXPECT_EQ(
      said(graphs, {.batches = 10}),
      (Texts{"graphs are still being compiled at training batch 6: 10 batches caused 6 graphs, which took 1.50 s to "
             "compile; the newest: its shape (h.lua:3)"}));
  EXPECT_EQ(said(graphs, {.batches = 9}).at(0).substr(0, 38), "new batch sizes in training caused 6 g");
  EXPECT_EQ(said(graphs, {.batches = 12}).at(0).substr(0, 38), "new batch sizes in training caused 6 g")
      << "caused by half of the batches";
  for (Made& made : graphs) made.kind = MissKind::kStored;
  EXPECT_EQ(said(graphs, {.batches = 10}), Texts());
}

TEST(TpuRunAnalysis, ReportsReadsWithTheirLine) {
  const std::vector<Made> graphs{{MissKind::kFirst}, {MissKind::kStored, "", 1, {}, /*is_read=*/true}};
  EXPECT_EQ(said(graphs, {.batches = 10, .reads = 25}),
            (Texts{"a hook reads 2.5 tensor values per training batch, of the tensor created at mnist.lua:12: each "
                   "read causes a graph break, runs a separate graph and waits for the device; return the value as a "
                   "metric, or read it every n-th step"}));
  EXPECT_EQ(said(graphs, {.batches = 10, .reads = 5}), Texts());
}

TEST(TpuRunAnalysis, NamesTheReadOfSkippedSteps) {
  const std::vector<Made> graphs{{MissKind::kFirst},
                                 {.kind = MissKind::kFirst, .is_read = true, .output = kStepWasSkipped}};
  EXPECT_EQ(said(graphs, {.batches = 10, .reads = 6}),
            (Texts{"a hook reads 0.6 tensor values per training batch, most often acc.optimizer_step_was_skipped: each "
                   "read causes a graph break, runs a separate graph and waits for the device; leave it out: a skipped "
                   "step changes neither weights nor schedule, and the summary counts it"}));
}

TEST(TpuRunAnalysis, ReportsReadsInEvaluations) {
  const std::vector<Made> graphs{{MissKind::kFirst},
                                 {.kind = MissKind::kFirst, .is_read = true, .evaluates = true},
                                 {.kind = MissKind::kFirst, .role = GraphRole::kForward}};
  EXPECT_EQ(said(graphs, {.batches = 10, .evaluation_reads = 25}),
            (Texts{"a hook reads 25 tensor values in evaluations, of the tensor created at mnist.lua:12: each read "
                   "causes a graph break, runs a separate graph and waits for the device; return the value as a metric "
                   "of evaluation_step, or read a sum after the last batch"}));
  EXPECT_EQ(said(graphs, {.batches = 10, .evaluation_reads = 9}), Texts());
}

// Per batch, or by the time that they take.
TEST(TpuRunAnalysis, ReportsChangingShapesBelowHalfOfTheBatches) {
  std::vector<Made> graphs(15, {MissKind::kStructure, "the axes changed", 39, {"h.lua", 3, 0}});
  EXPECT_EQ(
      said(graphs, {.batches = 40}),
      (Texts{"changing shapes or operations in training caused 15 graphs, which took 3.75 s to compile, in a run of "
             "40 training batches, last at batch 39: the axes changed (h.lua:3); use the same shapes in every "
             "batch (nn.where or a mask in place of slices)"}));
  EXPECT_EQ(said(graphs, {.batches = 150, .seconds = 40}), Texts());
  EXPECT_EQ(said(graphs, {.batches = 150, .seconds = 30}).size(), 1u);
  graphs.resize(4, graphs[0]);
  EXPECT_EQ(said(graphs, {.batches = 12}), Texts());
}

}  // namespace
}  // namespace runner::backends::tpu
