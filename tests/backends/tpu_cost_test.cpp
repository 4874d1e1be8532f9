// Costs against XLA's own HloCostAnalysis, and predicted times against values worked out by hand.
#include <functional>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "backends/ir/ops.h"
#include "backends/ir/print.h"
#include "backends/tpu/roofline.h"
#include "tests/backends/support/mlp_step.h"
#include "tests/backends/support/on_tpu.h"
#include "tests/backends/support/random_program.h"
#include "tests/golden/golden.h"

namespace runner::backends::tpu::testing {
namespace {

struct TestGraph {
  Program program;

  Value operator()(const Shape& shape, DType dtype = DType::kF32, InputKind kind = InputKind::kBatch) {
    return {&program, program.input(kind, "x", {dtype, shape})};
  }
};

std::vector<Cost> costs_of(const OnTpu& graph) {
  return group_costs(graph.device(), trace_tensors(graph.device()));
}
Cost total_of(const OnTpu& graph) {
  Cost total;
  for (const Cost& cost : costs_of(graph)) total += cost;
  return total;
}

// The cases of tests/golden/hlo_cost.py, with our ops.
const std::map<std::string, std::function<Value(TestGraph&)>>& golden_cases() {
  static const Shape kX{32, 128};
  static const int64_t kFirst[] = {0}, kLast[] = {1};
  static const std::map<std::string, std::function<Value(TestGraph&)>> cases{
      {"add", [](TestGraph& g) { return ops::add(g(kX), g(kX)); }},
      {"gt", [](TestGraph& g) { return ops::gt(g(kX), g(kX)); }},
      {"exp", [](TestGraph& g) { return ops::exp(g(kX)); }},
      {"log", [](TestGraph& g) { return ops::log(g(kX)); }},
      {"log1p", [](TestGraph& g) { return ops::log1p(g(kX)); }},
      {"sqrt", [](TestGraph& g) { return ops::sqrt(g(kX)); }},
      {"rsqrt", [](TestGraph& g) { return ops::unary(Op::kRsqrt, g(kX)); }},
      {"tanh", [](TestGraph& g) { return ops::tanh(g(kX)); }},
      {"pow", [](TestGraph& g) { return ops::pow(g(kX), g(kX)); }},
      {"sum", [](TestGraph& g) { return ops::sum(g(kX), kFirst); }},
      {"reduce_max", [](TestGraph& g) { return ops::reduce_max(g(kX), kLast); }},
      {"matmul",
       [](TestGraph& g) {
         return ops::matmul(g({32, 64}), g({64, 128}));
       }},
      {"batched_matmul",
       [](TestGraph& g) {
         return ops::matmul(g({4, 32, 64}), g({4, 64, 128}));
       }},
      {"concat",
       [](TestGraph& g) {
         const Value parts[] = {g({32, 128}), g({64, 128})};
         return ops::concat(parts, 0);
       }},
      {"embedding",
       [](TestGraph& g) {
         return ops::embedding(g({1024, 128}), g({256}, DType::kI64));
       }},
      {"softmax", [](TestGraph& g) { return ops::softmax(g(kX)); }},
      {"log_softmax", [](TestGraph& g) { return ops::log_softmax(g(kX)); }},
      {"layer_norm", [](TestGraph& g) { return ops::layer_norm(g(kX), g({128}), g({128})); }},
      {"gelu_tanh", [](TestGraph& g) { return ops::gelu_tanh(g(kX)); }},
  };
  return cases;
}

TEST(TpuCost, MatchesXla) {
  // Cases with one op and full tiles, whose bytes are comparable too.
  const std::set<std::string> whole{"add", "gt", "exp", "pow", "concat"};
  const auto golden = runner::testing::Golden::load("hlo_cost.json").cases();
  EXPECT_EQ(golden.size(), golden_cases().size());
  for (const auto& item : golden) {
    SCOPED_TRACE(item.name());
    TestGraph graph;
    const Value result = golden_cases().at(item.name())(graph);
    graph.program.output("", result.id);
    const Cost cost = total_of(OnTpu(graph.program));
    EXPECT_EQ(cost.flops, item["flops"].integer());
    EXPECT_EQ(cost.transcendentals, item["transcendentals"].integer());
    if (whole.contains(item.name())) {
      EXPECT_EQ(cost.bytes, item["bytes"].integer());
    }
  }
}

// Ops that are not in the golden file, from their formulas. (4, 10): 40 elements and 4 rows.
TEST(TpuCost, RowOperationsOfTraining) {
  struct Case {
    std::function<Value(TestGraph&)> make;
    int64_t flops, transcendentals;
  };
  const auto x = [](TestGraph& g) { return g({4, 10}); };
  const auto labels = [](TestGraph& g) { return g({4}, DType::kI64); };
  const int64_t axis[] = {1};
  const Case cases[] = {
      // log_softmax (4 · 40 − 2 · 4; 40 + 4) and a negation per row.
      {[&](TestGraph& g) { return ops::cross_entropy(x(g), labels(g)); }, 4 * 40 - 8 + 4, 44},
      {[&](TestGraph& g) { return ops::argmax(x(g), 1); }, 6 * 40 - 6 * 4, 0},
      {[&](TestGraph& g) { return ops::one_hot(labels(g), 10); }, 40, 0},
      {[&](TestGraph& g) { return ops::gelu(x(g)); }, 160, 40},
      {[&](TestGraph& g) { return ops::silu(x(g)); }, 40, 40},
      {[&](TestGraph& g) { return ops::sum(x(g), axis); }, 36, 0},
      {[&](TestGraph& g) {
         return ops::random_uniform(g({2}, DType::kI64), {4, 10}, 0);
       },
       0, 40},
      {[&](TestGraph& g) {
         return ops::dropout_mask(g({2}, DType::kI64), labels(g), {4, 10}, 0, 0.1);
       },
       80, 40},
      {[&](TestGraph& g) {
         return ops::scatter_add(x(g), 1, g({4, 3}, DType::kI64), g({4, 3}));
       },
       12, 0},
      {[&](TestGraph& g) {
         return ops::index_copy(x(g), 1, g({3}, DType::kI64), g({4, 3}));
       },
       0, 0},
      {[&](TestGraph& g) { return ops::transpose(x(g), 0, 1); }, 0, 0},
      {[&](TestGraph& g) { return ops::cast(x(g), DType::kBf16); }, 40, 0},
  };
  for (const Case& each : cases) {
    TestGraph graph;
    const Value result = each.make(graph);
    graph.program.output("", result.id);
    const OnTpu on_tpu(graph.program);
    const Cost cost = total_of(on_tpu);
    EXPECT_EQ(cost.flops, each.flops) << to_string(on_tpu.program());
    EXPECT_EQ(cost.transcendentals, each.transcendentals) << to_string(on_tpu.program());
  }
}

int64_t flops_of(Op op, const std::vector<TensorType>& operands, const std::vector<int64_t>& attrs) {
  TestGraph g;
  std::vector<ValueId> ids;
  for (const TensorType& type : operands) ids.push_back(g(type.shape, type.dtype).id);
  g.program.output("", g.program.record(op, ids, attrs));
  return total_of(OnTpu(g.program)).flops;
}

TEST(TpuCost, GradientsOfRowOperations) {
  const TensorType x{DType::kF32, Shape{4, 10}}, row{DType::kF32, Shape{10}}, labels{DType::kI64, Shape{4}};
  const TensorType losses{DType::kF32, Shape{4}};
  // The normalised rows again (5 n + r), gamma · grad, its mean, its mean with the rows (2 n), and four ops to combine
  // them.
  EXPECT_EQ(flops_of(Op::kLayerNormGradX, {x, row, x}, {pack_f64(1e-5)}), 13 * 40 + 4);
  // The normalised rows times grad, summed over the four rows.
  EXPECT_EQ(flops_of(Op::kLayerNormGradGamma, {x, x}, {pack_f64(1e-5)}), 5 * 40 + 4 + 40 + (40 - 10));
  // softmax (4 n − 2 r), minus one-hot, times the gradient.
  EXPECT_EQ(flops_of(Op::kCrossEntropyGrad, {x, labels, losses}, {-100, pack_f64(0)}), 6 * 40 - 8);
  EXPECT_EQ(flops_of(Op::kEmbeddingGrad, {labels, x}, {100}), 40);
}

// y = (a + b) · a of (8, 128) is one fusion: it reads a and b once and writes y.
TEST(TpuCost, AFusionReadsEachOperandOnce) {
  TestGraph g;
  const Value a = g({8, 128}), b = g({8, 128});
  g.program.output("", ops::mul(ops::add(a, b), a).id);
  const std::vector<Cost> costs = costs_of(OnTpu(g.program));
  ASSERT_EQ(costs.size(), 1U);
  EXPECT_EQ(costs[0], (Cost{.flops = 2048, .transcendentals = 0, .bytes = 3 * 4096}));
}

// Gathers count the rows they access: (256, 128) f32 twice and 256 s64; the table of 512 MB is not read in full.
TEST(TpuCost, GathersCountOnlyAccessedRows) {
  TestGraph g;
  const Value table = g({1 << 20, 128}), ids = g({256}, DType::kI64);
  g.program.output("", ops::embedding(table, ids).id);
  EXPECT_EQ(total_of(OnTpu(g.program)).bytes, 2 * 256 * 128 * 4 + 256 * 8);
}

// A slice of a flat state that is one of its tensors counts as that tensor, with its padding. A concat of gradients is
// only a list of tensors and costs nothing.
TEST(TpuCost, FlatArraysCountAsTheirTensors) {
  TestGraph g;
  const Value p = g({10 * 128 + 10}, DType::kF32, InputKind::kState), h = g({32, 128});
  const Value w = ops::reshape(ops::slice(p, 0, 0, 1280), {10, 128});
  const Value y = ops::matmul(h, w, false, true);
  g.program.output("", y.id);
  const std::vector<std::vector<TensorType>> inputs{{{DType::kF32, Shape{10, 128}}, {DType::kF32, Shape{10}}}};
  // h 32 · 128, w 16 · 128 with padding, y (32, 10) 32 · 128.
  EXPECT_EQ(total_of(OnTpu(g.program, inputs)).bytes, (32 + 16 + 32) * 128 * 4);

  TestGraph joined;
  const Value x = joined({64, 128}), grad = joined({64, 256});
  const Value parts[] = {ops::flatten(ops::matmul(x, grad, true)), ops::flatten(ops::matmul(grad, x, true))};
  joined.program.output("", ops::concat(parts, 0).id);
  const std::vector<Cost> costs = costs_of(OnTpu(joined.program));
  ASSERT_EQ(costs.size(), 3U);
  EXPECT_EQ(costs[2], Cost{});
}

// Cost of each node if none is fused, by node.
std::vector<Cost> costs_of_nodes(const OnTpu& graph) {
  const std::vector<Group> groups = make_groups(graph.program(), Fusion::kNone);
  const DeviceProgram device{.program = graph.program(), .groups = groups, .inputs = {}, .types = graph.device().types};
  const std::vector<Cost> costs = group_costs(device, trace_tensors(device));
  std::vector<Cost> nodes(static_cast<size_t>(graph.program().size()));
  for (size_t g = 0; g < groups.size(); ++g) nodes[static_cast<size_t>(groups[g].nodes.back())] = costs[g];
  return nodes;
}

// A fusion has the flops and transcendentals of its nodes, and never more bytes, unless it reads a broadcast value that
// a single node would find in memory.
TEST(TpuCost, OfFusionsIsTheSumOfTheirNodes) {
  int64_t saved = 0;
  for (uint32_t seed = 1; seed <= 500; ++seed) {
    const OnTpu graph(runner::backends::testing::RandomProgram(seed, 24).program);
    const DeviceTensors tensors = trace_tensors(graph.device());
    const std::vector<Cost> groups = group_costs(graph.device(), tensors), alone = costs_of_nodes(graph);
    for (size_t g = 0; g < groups.size(); ++g) {
      if (tensors.idle[g]) continue;
      Cost nodes;
      bool expands = false;
      for (const ValueId id : graph.groups()[g].nodes) {
        nodes += alone[static_cast<size_t>(id)];
        for (const ValueId operand : graph.program().operands(id))
          expands |= graph.program().node(operand).op == Op::kExpand;
      }
      ASSERT_EQ(groups[g].flops, nodes.flops) << seed;
      ASSERT_EQ(groups[g].transcendentals, nodes.transcendentals) << seed;
      if (expands) continue;
      ASSERT_LE(groups[g].bytes, nodes.bytes) << "seed " << seed << ", group " << g << "\n"
                                              << to_string(graph.program(), graph.groups());
      saved += nodes.bytes - groups[g].bytes;
    }
  }
  EXPECT_GT(saved, 0);
}

// ---- time ----------------------------------------------------------------------------------------------------------

StepTime time_of(const OnTpu& graph, const Machine& machine) {
  return predict_step(graph.device(), trace_tensors(graph.device()), machine);
}

TEST(TpuRoofline, PartlyFilledTiles) {
  EXPECT_DOUBLE_EQ(tile_efficiency(8, 128, 128, 128), 1);
  EXPECT_DOUBLE_EQ(tile_efficiency(512, 64, 512, 128), 0.5);   // attention scores with heads of 64
  EXPECT_DOUBLE_EQ(tile_efficiency(512, 64, 512, 256), 0.25);  // on v6e
  EXPECT_DOUBLE_EQ(tile_efficiency(4, 128, 10, 128), 0.5 * 10 / 128);
}

// (4096, 4096)² of f32 in full tiles: 2 · 4096³ flops at 61.5 TFLOP/s are 2.235 ms; 201 MB at 450 GB/s are 0.447 ms.
TEST(TpuRoofline, ProductsByPrecision) {
  TestGraph g;
  const Value a = g({4096, 4096}), b = g({4096, 4096});
  g.program.output("", ops::matmul(a, b).id);
  const OnTpu graph(g.program);
  const double once = 2.0 * 4096 * 4096 * 4096 / 61.5e12;
  for (const auto& [precision, passes] :
       {std::pair{MatmulPrecision::kDefault, 1}, {MatmulPrecision::kHigh, 3}, {MatmulPrecision::kHighest, 6}}) {
    EXPECT_EQ(passes_of(precision), passes);
    const StepTime time = time_of(graph, {.precision = precision});
    EXPECT_DOUBLE_EQ(time.matrix, passes * once);
    EXPECT_DOUBLE_EQ(time.memory, 3.0 * 4096 * 4096 * 4 / 450e9);
    EXPECT_DOUBLE_EQ(time.bound, passes * once);
    EXPECT_DOUBLE_EQ(time.on_device(), passes * once + 1.5e-6);
    EXPECT_DOUBLE_EQ(time.most(Generation::kV3), time.least() / 0.35);
  }
  // For bf16 the precision does not matter.
  const OnTpu bf16(g.program, {}, kBf16Types);
  EXPECT_DOUBLE_EQ(time_of(bf16, {.precision = MatmulPrecision::kHighest}).matrix, once);
  EXPECT_DOUBLE_EQ(time_of(bf16, {}).memory, 3.0 * 4096 * 4096 * 2 / 450e9);
}

// A product with a vector runs exactly, on the vector units.
TEST(TpuRoofline, ProductsWithVectors) {
  TestGraph g;
  const Value a = g({1, 1024}), b = g({1024, 512});
  g.program.output("", ops::matmul(a, b).id);
  const StepTime time = time_of(OnTpu(g.program), {});
  EXPECT_EQ(time.matrix, 0);
  EXPECT_DOUBLE_EQ(time.vector, 2.0 * 1024 * 512 / (8 * 128 * 2 * 0.94e9));
}

// 1.34 GB of gradients on a v3-8: 2 · 3/4 of it around a ring of four chips takes 24.5 ms in one direction, half of
// that in both; before that, the two cores of each chip add in their HBM.
TEST(TpuRoofline, AllReduceOnABoard) {
  const int64_t bytes = 1'340'000'000;
  const double ring = 2 * 0.75 * 1.34e9 / 82e9;
  EXPECT_NEAR(ring, 24.5e-3, 0.1e-3);
  EXPECT_NEAR(all_reduce_seconds(bytes, 8, Generation::kV3), ring / 2 + 3 * 1.34e9 / 450e9 + 6e-6, 1e-9);
  EXPECT_NEAR(all_reduce_seconds(bytes, 2, Generation::kV3), 3 * 1.34e9 / 450e9, 1e-9);
  EXPECT_NEAR(all_reduce_seconds(bytes, 4, Generation::kV4), 1.5 * 1.34e9 / 90e9 + 6e-6, 1e-9);
  EXPECT_EQ(all_reduce_seconds(bytes, 1, Generation::kV3), 0);

  TestGraph g;
  g.program.output("", ops::all_reduce(g({1024, 1024}), Reduction::kSum, Subject::kGradients).id);
  EXPECT_DOUBLE_EQ(time_of(OnTpu(g.program), {.devices = 8}).on_device(),
                   all_reduce_seconds(4 << 20, 8, Generation::kV3));
  EXPECT_EQ(time_of(OnTpu(g.program), {.devices = 1}).on_device(), 0);
}

TEST(TpuRoofline, FormulaHasAllFigures) {
  const StepTime time{.cost = {},
                      .matrix = 0.25e-3,
                      .vector = 0.125e-3,
                      .memory = 0.5e-3,
                      .bound = 0.625e-3,
                      .launching = 30e-6,
                      .all_reduce = 45e-6,
                      .upload = 0.25e-3,
                      .launches = 20};
  EXPECT_EQ(
      formula_text(time, {}),
      "0.7 ms to 2 ms: t to t / 0.35, t = max(0.625 ms + 20 launches of 1.5 us + 0.045 ms of all-reduces, upload of "
      "a batch 0.25 ms); 0.625 ms is Σ max(matrix 0.25 ms, vector 0.125 ms, hbm 0.5 ms) over fusions, on v3 at 61.5 "
      "TFLOP/s of bf16, 1 pass for f32, 450 GB/s; 0.35: measured: BERT-large, fp32, v3-8, torch_xla 1.7");
}

// The upload of a batch takes longer than the computation: (4096, 1024) of f32 and its sum.
TEST(TpuRoofline, UploadBoundStep) {
  TestGraph g;
  g.program.output("", ops::sum(g({4096, 1024})).id);
  const StepTime time = time_of(OnTpu(g.program), {});
  EXPECT_DOUBLE_EQ(time.upload, 4096.0 * 1024 * 4 / 7.5e9);
  EXPECT_LT(time.on_device(), time.upload);
  EXPECT_EQ(time.least(), time.upload);
  EXPECT_DOUBLE_EQ(time_of(OnTpu(g.program, {}, kBf16Types), {}).upload, time.upload / 2);
}

// A whole training step: everything is counted once, and a faster chip is never slower.
TEST(TpuRoofline, TrainingStep) {
  using runner::backends::testing::MlpStep;
  const MlpStep step({.batch = 256, .widths = {784, 1024, 1024, 10}});
  const OnTpu graph(step.program());
  const StepTime v2 = time_of(graph, {.generation = Generation::kV2});
  const StepTime v3 = time_of(graph, {.generation = Generation::kV3});
  const StepTime v5p = time_of(graph, {.generation = Generation::kV5p});
  // Products alone: three per layer, except for the derivative with respect to the features.
  const int64_t products = int64_t{2} * 256 * (2 * 784 * 1024 + 3 * 1024 * 1024 + 3 * 1024 * 10);
  EXPECT_GT(v3.cost.flops, products);
  EXPECT_LT(v3.cost.flops, products * 1.1);
  EXPECT_EQ(v2.cost, v3.cost);
  EXPECT_LE(v3.on_device(), v2.on_device());
  EXPECT_LE(v5p.on_device(), v3.on_device());
  EXPECT_GE(v3.bound, v3.memory);
  EXPECT_GE(v3.bound, v3.matrix);
  EXPECT_LE(v3.bound, v3.memory + v3.matrix + v3.vector);
}

}  // namespace
}  // namespace runner::backends::tpu::testing
