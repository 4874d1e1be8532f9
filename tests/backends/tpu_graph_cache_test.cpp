// Compile cache: hits, evictions, and explanations of misses.
#include <gtest/gtest.h>

#include "backends/ir/ops.h"
#include "backends/tpu/graph_cache.h"

namespace runner::backends::tpu {
namespace {

// Σ exp(w · batch · factor) over `samples` samples.
struct Wanted {
  int64_t samples = 4;
  double factor = 0.5;
  bool exp = false;
  bool two_outputs = false;
  std::vector<int32_t> absent = {};
};

GraphIdentity identity_of(const Wanted& wanted) {
  Program program;
  const TensorType type{DType::kF32, Shape{wanted.samples}};
  const Value batch{&program, program.input(InputKind::kBatch, "features", type)};
  const Value weights{&program, program.input(InputKind::kState, "w", {DType::kF32, Shape{}})};
  const Value factor{&program, program.input(InputKind::kScalar, "number", {DType::kF32, Shape{}})};
  program.set_mark({"h.lua", 5, 0});
  Value product = ops::mul(ops::mul(batch, weights), factor);
  program.set_mark({"h.lua", 7, 0});
  if (wanted.exp) product = ops::exp(product);
  program.output("loss", ops::sum(product).id);
  if (wanted.two_outputs) program.output("item", product.id);
  const std::vector<TracedScalar> scalars{{ScalarUse::kOperand, wanted.factor, "the factor"}};
  return {std::make_shared<const Program>(std::move(program)), scalars, signature_of(scalars), wanted.absent};
}

Graph graph_of(const Wanted& wanted) {
  Graph graph(GraphRole::kForward);
  graph.identity = identity_of(wanted);
  graph.key = key_of(graph.identity);
  return graph;
}

bool finds(GraphCache& cache, const Wanted& wanted) {
  const GraphIdentity identity = identity_of(wanted);
  return cache.find(key_of(identity), identity) != nullptr;
}

TEST(GraphCache, FindsEqualGraphs) {
  GraphCache cache;
  EXPECT_FALSE(finds(cache, {}));
  cache.add(graph_of({}));
  EXPECT_TRUE(finds(cache, {}));
  EXPECT_TRUE(finds(cache, {.factor = 0.25})) << "a scalar input with any value";
  EXPECT_FALSE(finds(cache, {.factor = 1}));
  EXPECT_FALSE(finds(cache, {.samples = 5}));
  EXPECT_FALSE(finds(cache, {.absent = {0}}));
}

TEST(GraphCache, EvictsTheLeastRecentlyUsedGraph) {
  GraphCache cache({}, {.graphs = 2});
  cache.add(graph_of({.samples = 1}));
  cache.add(graph_of({.samples = 2}));
  EXPECT_TRUE(finds(cache, {.samples = 1}));
  cache.add(graph_of({.samples = 3}));
  EXPECT_TRUE(finds(cache, {.samples = 1}));
  EXPECT_FALSE(finds(cache, {.samples = 2}));
  ASSERT_EQ(cache.compiled().size(), 3u);
  EXPECT_EQ(cache.compiled()[1].identity.program, nullptr) << "the tensor graph is no longer needed";

  const Graph& again = cache.add(graph_of({.samples = 2}));
  EXPECT_EQ(again.cause.kind, MissKind::kEvicted);
  EXPECT_EQ(again.cause.text, "it was evicted: the cache is full");
}

TEST(GraphCache, EvictsByNumberOfNodes) {
  const int64_t nodes = identity_of({}).program->size();
  GraphCache cache({}, {.nodes = 2 * nodes});
  for (const int64_t samples : {1, 2, 3}) cache.add(graph_of({.samples = samples}));
  EXPECT_FALSE(finds(cache, {.samples = 1}));
  EXPECT_TRUE(finds(cache, {.samples = 2}));
  EXPECT_TRUE(finds(cache, {.samples = 3}));
  cache.add(graph_of({.samples = 4, .exp = true}));  // this one is larger
  EXPECT_TRUE(finds(cache, {.samples = 4, .exp = true}));
  EXPECT_FALSE(finds(cache, {.samples = 3}));
}

// Numbers of the graphs whose tensor graph is kept.
std::vector<int64_t> shown_of(const GraphCache& cache) {
  std::vector<int64_t> shown;
  for (size_t i = 0; i < cache.compiled().size(); ++i)
    if (cache.compiled()[i].tensors != nullptr) shown.push_back(static_cast<int64_t>(i));
  return shown;
}

TEST(GraphCache, KeepsTensorGraphsOfTheFirstAndNewestGraphs) {
  const auto filled = [](GraphCache::Capacity capacity) {
    GraphCache cache({}, capacity);
    for (int64_t samples = 1; samples <= 9; ++samples) {
      Graph graph = graph_of({.samples = samples});
      graph.tensors = graph.identity.program;
      cache.add(std::move(graph));
    }
    return shown_of(cache);
  };
  const int64_t nodes = identity_of({}).program->size();
  EXPECT_EQ(filled({.shown_graphs = 2}), (std::vector<int64_t>{0, 1, 7, 8}));
  EXPECT_EQ(filled({.shown_nodes = 3 * nodes}), (std::vector<int64_t>{0, 1, 2, 6, 7, 8}));
  EXPECT_EQ(filled({.shown_nodes = nodes - 1}), (std::vector<int64_t>{8})) << "the newest graph is kept at any size";
  EXPECT_EQ(filled({}).size(), 9u);
}

// Expected explanation of a graph that differs from Wanted{}.
struct Differs {
  Wanted wanted;
  MissKind kind;
  std::string cause;
  int line;  // 0: none
};

TEST(GraphCache, ExplainsHowAGraphDiffers) {
  const Differs cases[] = {
      {{.samples = 5}, MissKind::kBatchSize, "features changed from (4) f32 to (5) f32", 0},
      {{.factor = 1},
       MissKind::kNumber,
       "the factor changed from 0.5 to 1; the numbers 0, 1 and -1 are constants of the graph",
       0},
      {{.absent = {0}}, MissKind::kState, "w does not exist yet, so the graph creates it as zeros", 0},
      {{.exp = true}, MissKind::kStructure, "the first node that differs: sum () f32 before, exp (4) f32 now", 7},
      {{.two_outputs = true}, MissKind::kStructure, "the outputs changed from 1 of 8 nodes to 2 of 8 nodes", 0},
  };
  for (const Differs& differs : cases) {
    GraphCache cache;
    EXPECT_EQ(cache.add(graph_of({})).cause.text, "the first graph");
    const Graph& graph = cache.add(graph_of(differs.wanted));
    EXPECT_EQ(graph.cause.kind, differs.kind) << graph.cause.text;
    EXPECT_EQ(graph.cause.text, differs.cause);
    EXPECT_EQ(graph.cause.line.line, differs.line) << graph.cause.text;
  }
}

TEST(GraphCache, ComparesWithTheNearestRecentGraph) {
  GraphCache cache;
  cache.add(graph_of({.samples = 4, .exp = true}));
  cache.add(graph_of({.samples = 9}));
  EXPECT_EQ(cache.add(graph_of({.samples = 5, .exp = true})).cause.text, "features changed from (4) f32 to (5) f32");
  EXPECT_EQ(cache.add(graph_of({.samples = 6, .exp = true})).cause.text, "features changed from (5) f32 to (6) f32");
  EXPECT_TRUE(finds(cache, {.samples = 4, .exp = true}));
  EXPECT_EQ(cache.add(graph_of({.samples = 7, .exp = true})).cause.text, "features changed from (4) f32 to (7) f32");
}

}  // namespace
}  // namespace runner::backends::tpu
