// Explanations of compilations, as `runner graphs` shows them.
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backends/exec/backend.h"
#include "backends/ir/ops.h"
#include "backends/tpu/graph_cache.h"
#include "backends/tpu/miss_cause.h"

namespace runner::backends::tpu {
namespace {

const TensorType kWeights{DType::kF32, Shape{4}}, kSums{DType::kF64, Shape{2}};

GraphIdentity identity_with(Program program, std::vector<TracedScalar> scalars = {}) {
  const ScalarSignature signature = signature_of(scalars);
  return {std::make_shared<const Program>(std::move(program)), std::move(scalars), signature, {}};
}

// w ← w + w, `rows` times.
Program training(int rows = 1) {
  Program program;
  Value w{&program, program.input(InputKind::kState, "parameters 0", kWeights)};
  for (int row = 0; row < rows; ++row) w = ops::add(w, w);
  program.output("w", w.id, 0);
  return program;
}

// The sum of w, alone or added to the sums of earlier batches.
Program evaluation(bool is_first) {
  Program program;
  const Value w{&program, program.input(InputKind::kState, "parameters 0", kWeights)};
  const Value sums{&program, program.input(InputKind::kState, "evaluation sum", kSums)};
  const Value mine = ops::expand(ops::cast(ops::sum(w), DType::kF64), kSums.shape);
  program.output("sum", is_first ? mine.id : ops::add(sums, mine).id, 1);
  return program;
}

// A read by a hook at `line`: of w + w or −w.
Program read_of(int line, bool is_doubled = false) {
  Program program;
  const Value w{&program, program.input(InputKind::kState, "parameters 0", kWeights)};
  program.set_mark({"h.lua", line, 0});
  const Value read = is_doubled ? ops::add(w, w) : ops::neg(w);
  program.output({.name = "item", .value = read.id, .is_read = true});
  return program;
}

// Compiles the graphs in order; returns the cause of the last.
MissCause cause_of_last(std::vector<GraphIdentity> graphs) {
  GraphCache cache;
  for (GraphIdentity& identity : graphs) {
    Graph graph;
    graph.key = key_of(identity);
    graph.identity = std::move(identity);
    cache.add(std::move(graph));
  }
  const Graph& last = cache.compiled().back();
  return last.cause;
}

TEST(TpuMissCause, ComparesGraphsOfTheSameRole) {
  EXPECT_EQ(role_of(training()), GraphRole::kUpdate);
  EXPECT_EQ(role_of(evaluation(true)), GraphRole::kForward);
  EXPECT_EQ(role_of(read_of(3)), GraphRole::kRead);
  const auto step = identity_with(training()), first = identity_with(evaluation(true)),
             later = identity_with(evaluation(false));
  EXPECT_EQ(cause_of_last({step}).text, "the first graph");
  EXPECT_EQ(cause_of_last({step, first}).text, "the first graph of an evaluation: it updates no state");
  EXPECT_EQ(cause_of_last({first, step}).text, "the first graph that updates parameters or gradients");
  EXPECT_EQ(cause_of_last({step, first, later}).text,
            "it has the nodes of the most similar graph, followed by add (2) f64");
}

TEST(TpuMissCause, ComparesReadsOfTheSameLine) {
  const auto step = identity_with(training()), read = identity_with(read_of(3)), other = identity_with(read_of(4)),
             changed = identity_with(read_of(3, true));
  const MissCause first = cause_of_last({step, read, other});
  EXPECT_EQ(first.text, "the first read of a value at this line");
  EXPECT_EQ(first.line.to_string(), "h.lua:4");
  EXPECT_EQ(first.kind, MissKind::kFirst);
  EXPECT_EQ(cause_of_last({step, read, changed}).text,
            "the first node that differs: neg (4) f32 before, add (4) f32 now");
}

TEST(TpuMissCause, ReportsTheNumberOfBatches) {
  const auto of = [](int batches) {
    GraphIdentity identity = identity_with(training(batches));
    identity.batches = batches;
    return identity;
  };
  EXPECT_EQ(cause_of_last({of(3), of(1)}).text, "it contains 1 batch, the most similar graph 3");
  EXPECT_EQ(cause_of_last({of(3), of(6), of(9)}).text, "it contains 9 batches, the most similar graph 6");
}

// Quotes the value of its last run, not the one it was compiled with.
TEST(TpuMissCause, QuotesTheScalarOfTheNearestGraphsLastRun) {
  const auto with = [](double rate) { return identity_with(training(), {{ScalarUse::kFactor, rate, "-lr"}}); };
  GraphCache cache;
  Graph graph;
  graph.identity = with(-0.1);
  graph.key = key_of(graph.identity);
  cache.add(std::move(graph));
  ASSERT_NE(cache.find(key_of(with(-0.05)), with(-0.05)), nullptr);
  EXPECT_EQ(cache.cause_of(with(0)).text,
            "-lr changed from -0.05 to 0; the numbers 0, 1 and -1 are constants of the graph");
}

TEST(TpuMissCause, ReportsExponentsAsAttributes) {
  const auto with = [](double power) {
    return identity_with(training(), {{ScalarUse::kAttribute, power, "a number in the hook"}});
  };
  EXPECT_EQ(cause_of_last({with(1.16), with(1.2)}).kind, MissKind::kAttribute);
}

}  // namespace
}  // namespace runner::backends::tpu
