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
    Graph graph(role_of(*identity.program));
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

// A read of an input as it is. `line`: of a tensor that a hook makes; 0 for an input of the batch.
Program read_of_input(const std::string& name, const TensorType& type, int line = 0) {
  Program program;
  if (line > 0) program.set_mark({"h.lua", line, 0});
  const ValueId read = program.input(InputKind::kBatch, name, type);
  program.output({.name = "item", .value = read, .is_read = true});
  return program;
}

TEST(TpuMissCause, ComparesReadsOfTheSameInput) {
  const TensorType ids{DType::kI64, Shape{4}}, mask{DType::kF32, Shape{4}}, shorter{DType::kF32, Shape{3}};
  const auto read_ids = identity_with(read_of_input("sample_ids", ids)),
             read_mask = identity_with(read_of_input("mask", mask)),
             read_shorter = identity_with(read_of_input("mask", shorter));
  const MissCause other = cause_of_last({identity_with(training()), read_ids, read_mask});
  EXPECT_EQ(other.text, "the first read of the input \"mask\"");
  EXPECT_EQ(other.kind, MissKind::kFirst);
  const MissCause size = cause_of_last({read_ids, read_mask, read_shorter});
  EXPECT_EQ(size.text, "mask changed from (4) f32 to (3) f32");
  EXPECT_EQ(size.kind, MissKind::kBatchSize);
}

// Only another number of samples is a batch size: not another input, another length of the samples, another dtype, or a
// list of a hook.
TEST(TpuMissCause, DistinguishesBatchSizesFromOtherShapes) {
  const auto with = [](const std::string& name, const TensorType& type, int line = 0) {
    Program program;
    const Value w{&program, program.input(InputKind::kState, "parameters 0", kWeights)};
    if (line > 0) program.set_mark({"h.lua", line, 0});
    const Value x{&program, program.input(InputKind::kBatch, name, type)};
    program.set_mark({});
    program.output("w", ops::add(w, ops::cast(ops::expand(ops::sum(x), kWeights.shape), DType::kF32)).id, 0);
    return identity_with(std::move(program));
  };
  const TensorType type{DType::kF32, Shape{8, 2}};
  const auto kind = [&](const GraphIdentity& now, int line = 0) {
    return cause_of_last({with("features", type, line), now}).kind;
  };
  EXPECT_EQ(kind(with("features", {DType::kF32, Shape{5, 2}})), MissKind::kBatchSize);
  EXPECT_EQ(kind(with("mask", {DType::kF32, Shape{5, 2}})), MissKind::kStructure);
  EXPECT_EQ(kind(with("features", {DType::kF32, Shape{8, 3}})), MissKind::kStructure);
  EXPECT_EQ(kind(with("features", {DType::kF64, Shape{5, 2}})), MissKind::kStructure);
  EXPECT_EQ(kind(with("features", {DType::kF32, Shape{5, 2}}, 7), 7), MissKind::kStructure);
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
  Graph graph(GraphRole::kUpdate);
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
