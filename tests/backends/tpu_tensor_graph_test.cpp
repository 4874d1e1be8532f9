// Tensor graphs: their texts, and the number of tensors.
#include <regex>

#include <gtest/gtest.h>

#include "backends/ir/ops.h"
#include "backends/tpu/graph_text.h"
#include "backends/tpu/tensor_graph.h"

namespace runner::backends::tpu {
namespace {

constexpr int kWeightType = 0, kMomenta = 1;

// Tensors in the arrays: (2, 3) and (2).
StateTensors layer() {
  const TensorType weight{DType::kF32, Shape{2, 3}}, bias{DType::kF32, Shape{2}};
  return {{{"0.weight", weight}, {"0.bias", bias}}, {{"m of 0.weight", weight}, {"m of 0.bias", bias}}};
}

// A Program over the two arrays.
struct Flat {
  Program program;
  Value weights = state("parameters 0"), momenta = state("momentum_buffer 0");

  Value state(const char* name) { return {&program, program.input(InputKind::kState, name, {DType::kF32, Shape{8}})}; }
  Value batch(const Shape& shape) { return {&program, program.input(InputKind::kBatch, "x", {DType::kF32, shape})}; }
  Value number() { return {&program, program.input(InputKind::kScalar, "number", {DType::kF32, {}})}; }
  void update(Value now, int state) { program.output("", now.id, state); }
};

GraphIdentity identity_of(Flat& flat, std::vector<TracedScalar> scalars = {}, std::vector<int32_t> absent = {}) {
  return {std::make_shared<const Program>(std::move(flat.program)), scalars, signature_of(scalars), std::move(absent)};
}

int64_t count(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  return std::distance(std::sregex_iterator(text.begin(), text.end(), regex), std::sregex_iterator());
}

// The counts must match both texts.
void expect_counts_of_texts(const Program& graph) {
  const GraphSize size = size_of(graph);
  const std::string ir = ir_text(graph), hlo = hlo_text(graph);
  EXPECT_EQ(size.nodes, count(ir, "\n  %")) << ir;
  EXPECT_EQ(size.inputs, count(ir, "xla::device_data"));
  EXPECT_EQ(size.outputs, count(ir, "ROOT="));
  EXPECT_EQ(size.inputs, count(hlo, " parameter\\([0-9]+\\), metadata")) << hlo;
  EXPECT_EQ(size.donated, count(hlo, "may-alias"));
}

// An SGD step, w' = w − 0.1 · g. For the weight, g is a product of three matrices; for the bias, the bias plus the row
// sums of that product.
Flat sgd_step() {
  Flat flat;
  const Value x = flat.batch({2, 3});
  const Value weight = ops::reshape(ops::slice(flat.weights, 0, 0, 6), {2, 3});
  const Value bias = ops::slice(flat.weights, 0, 6, 8);
  const Value gradient = ops::matmul(ops::matmul(weight, x, false, true), x);
  const Value parts[] = {ops::flatten(gradient), ops::add(bias, ops::sum(gradient, std::array{int64_t{1}}))};
  flat.update(ops::sub(flat.weights, ops::mul(ops::concat(parts, 0), 0.1)), kWeightType);
  return flat;
}

// HLO has shape rules of its own.
TEST(HloText, DropsStretchedAxesAndPrintsPadding) {
  Program program;
  const Value column{&program, program.input(InputKind::kBatch, "x", {DType::kF32, Shape{3, 1}})};
  const Value wide = ops::expand(column, Shape{2, 3, 4});
  program.output("padded", ops::pad(wide, 2, 1, 2).id);
  const std::string text = hlo_text(program);
  EXPECT_NE(text.find("  %reshape.2 = f32[3]{0} reshape(f32[3,1]{1,0} %p0.1)\n"
                      "  %broadcast.3 = f32[2,3,4]{2,1,0} broadcast(f32[3]{0} %reshape.2), dimensions={1}\n"
                      "  %constant.4 = f32[] constant(0)\n"
                      "  %pad.5 = f32[2,3,7]{2,1,0} pad(f32[2,3,4]{2,1,0} %broadcast.3, f32[] %constant.4), "
                      "padding=0_0x0_0x1_2\n"),
            std::string::npos)
      << text;
}

TEST(TensorGraph, HasOneNodePerTensor) {
  Flat flat = sgd_step();
  const Program graph = tensor_graph(identity_of(flat), layer());
  EXPECT_EQ(ir_text(graph), R"(IR {
  %0 = f32[] prim::Constant(), xla_shape=f32[], value=0.1
  %1 = f32[2,3]{1,0} aten::expand(%0), xla_shape=f32[2,3]{1,0}, size=(2, 3)
  %2 = f32[2,3]{1,0} xla::device_data(), xla_shape=f32[2,3]{1,0}, name="x"
  %3 = f32[3,2]{1,0} aten::permute(%2), xla_shape=f32[3,2]{1,0}, dims=(1, 0)
  %4 = f32[2,3]{1,0} xla::device_data(), xla_shape=f32[2,3]{1,0}, name="0.weight"
  %5 = f32[2,2]{1,0} aten::mm(%4, %3), xla_shape=f32[2,2]{1,0}
  %6 = f32[2,3]{1,0} aten::mm(%5, %2), xla_shape=f32[2,3]{1,0}
  %7 = f32[2,3]{1,0} aten::mul(%6, %1), xla_shape=f32[2,3]{1,0}
  %8 = f32[2,3]{1,0} aten::sub(%4, %7), xla_shape=f32[2,3]{1,0}, ROOT=0
  %9 = f32[] prim::Constant(), xla_shape=f32[], value=0.1
  %10 = f32[2]{0} aten::expand(%9), xla_shape=f32[2]{0}, size=(2)
  %11 = f32[2]{0} aten::sum(%6), xla_shape=f32[2]{0}, dim=(1)
  %12 = f32[2]{0} xla::device_data(), xla_shape=f32[2]{0}, name="0.bias"
  %13 = f32[2]{0} aten::add(%12, %11), xla_shape=f32[2]{0}
  %14 = f32[2]{0} aten::mul(%13, %10), xla_shape=f32[2]{0}
  %15 = f32[2]{0} aten::sub(%12, %14), xla_shape=f32[2]{0}, ROOT=1
}
)");
  EXPECT_EQ(
      hlo_text(graph),
      R"(HloModule SyncTensorsGraph.19, input_output_alias={ {0}: (1, {}, may-alias), {1}: (2, {}, may-alias) }, entry_computation_layout={(f32[2,3]{1,0}, f32[2,3]{1,0}, f32[2]{0})->(f32[2,3]{1,0}, f32[2]{0})}

%add.f32 (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %z = f32[] add(f32[] %x, f32[] %y)
}

ENTRY %SyncTensorsGraph.19 (p0.3: f32[2,3], p1.5: f32[2,3], p2.14: f32[2]) -> (f32[2,3]{1,0}, f32[2]{0}) {
  %constant.1 = f32[] constant(0.1)
  %broadcast.2 = f32[2,3]{1,0} broadcast(f32[] %constant.1), dimensions={}
  %p0.3 = f32[2,3]{1,0} parameter(0), metadata={op_type="xla__device_data" op_name="x"}
  %transpose.4 = f32[3,2]{1,0} transpose(f32[2,3]{1,0} %p0.3), dimensions={1,0}
  %p1.5 = f32[2,3]{1,0} parameter(1), metadata={op_type="xla__device_data" op_name="0.weight"}
  %dot.6 = f32[2,2]{1,0} dot(f32[2,3]{1,0} %p1.5, f32[3,2]{1,0} %transpose.4), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %dot.7 = f32[2,3]{1,0} dot(f32[2,2]{1,0} %dot.6, f32[2,3]{1,0} %p0.3), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %multiply.8 = f32[2,3]{1,0} multiply(f32[2,3]{1,0} %dot.7, f32[2,3]{1,0} %broadcast.2)
  %subtract.9 = f32[2,3]{1,0} subtract(f32[2,3]{1,0} %p1.5, f32[2,3]{1,0} %multiply.8)
  %constant.10 = f32[] constant(0.1)
  %broadcast.11 = f32[2]{0} broadcast(f32[] %constant.10), dimensions={}
  %constant.12 = f32[] constant(0)
  %reduce.13 = f32[2]{0} reduce(f32[2,3]{1,0} %dot.7, f32[] %constant.12), dimensions={1}, to_apply=%add.f32
  %p2.14 = f32[2]{0} parameter(2), metadata={op_type="xla__device_data" op_name="0.bias"}
  %add.15 = f32[2]{0} add(f32[2]{0} %p2.14, f32[2]{0} %reduce.13)
  %multiply.16 = f32[2]{0} multiply(f32[2]{0} %add.15, f32[2]{0} %broadcast.11)
  %subtract.17 = f32[2]{0} subtract(f32[2]{0} %p2.14, f32[2]{0} %multiply.16)
  ROOT %tuple.18 = (f32[2,3]{1,0}, f32[2]{0}) tuple(f32[2,3]{1,0} %subtract.9, f32[2]{0} %subtract.17)
}
)");
  expect_counts_of_texts(graph);
}

// The same nodes: floats have their device type, and a cast between types that are equal on the device is omitted.
TEST(TensorGraph, IsPrintedInDeviceTypes) {
  Flat flat = sgd_step();
  const Value wide = ops::cast(flat.batch({2, 3}), DType::kF64);
  flat.program.output("sum", ops::sum(wide).id);
  const Program graph = tensor_graph(identity_of(flat), layer());
  const auto counts = [&](const DeviceTypes& types) {
    const std::string ir = ir_text(graph, {types, {}}), hlo = hlo_text(graph, {types, {}});
    EXPECT_EQ(count(ir, "\n  %"), graph.size()) << ir;
    EXPECT_EQ(count(ir, "xla::cast"), 1) << ir;
    EXPECT_EQ(count(ir, "f32\\[") == 0, count(hlo, "f32\\[") == 0) << ir << hlo;
    return std::array{count(hlo, "f64\\["), count(hlo, "f32\\["), count(hlo, " convert\\(")};
  };
  const auto plain = counts(kFullTypes), bf16 = counts(kBf16Types), downcast = counts(kDowncastBf16Types);
  EXPECT_EQ(bf16, (std::array<int64_t, 3>{0, 0, 0}));
  EXPECT_EQ(downcast, (std::array<int64_t, 3>{0, plain[0], 1})) << "f64 becomes f32";
  EXPECT_EQ(plain[2], 1);
  EXPECT_NE(ir_text(graph, {kBf16Types, {}}).find("bf16[] prim::Constant(), xla_shape=bf16[], value=0.1001\n"),
            std::string::npos)
      << "0.1 rounded to bf16";
  EXPECT_NE(hlo_text(graph, {kBf16Types, {}}).find("= bf16[] constant(0.1001)\n"), std::string::npos);
}

// Losses have device types; their sum and the number of samples do not. on_host() marks say so and are not nodes.
TEST(TensorGraph, BookkeepingIsPrintedInLogicalTypes) {
  Program program;
  const Value total{&program, program.input(InputKind::kState, "total", {DType::kF64, {}})};
  const Value x{&program, program.input(InputKind::kBatch, "x", {DType::kF32, Shape{3}})};
  const Value samples{&program, program.input(InputKind::kScalar, "samples", {DType::kF32, {}})};
  const Value mean = ops::div(ops::sum(ops::on_host(ops::mul(x, x))), ops::on_host(samples));
  program.output("total", ops::add(total, ops::cast(mean, DType::kF64)).id, 0);
  program.output("scaled", ops::mul(x, ops::cast(ops::expand(total, Shape{3}), DType::kF32)).id);
  const ShownGraph graph = shown_graph({std::make_shared<const Program>(std::move(program)), {}, {}, {}}, {});
  EXPECT_EQ(ir_text(graph.program, {kBf16Types, graph.bookkeeping}),
            R"(IR {
  %0 = f32[] xla::device_data(), xla_shape=f32[], name="samples"
  %1 = bf16[3]{0} xla::device_data(), xla_shape=bf16[3]{0}, name="x"
  %2 = bf16[3]{0} aten::mul(%1, %1), xla_shape=bf16[3]{0}
  %3 = f32[] aten::sum(%2), xla_shape=f32[], dim=(0)
  %4 = f32[] aten::div(%3, %0), xla_shape=f32[]
  %5 = f64[] xla::cast(%4), xla_shape=f64[]
  %6 = f64[] xla::device_data(), xla_shape=f64[], name="total"
  %7 = f64[] aten::add(%6, %5), xla_shape=f64[], ROOT=0
  %8 = f64[3]{0} aten::expand(%6), xla_shape=f64[3]{0}, size=(3)
  %9 = f32[3]{0} xla::cast(%8), xla_shape=f32[3]{0}
  %10 = bf16[3]{0} aten::mul(%1, %9), xla_shape=bf16[3]{0}, ROOT=1
}
)");
  const std::string hlo = hlo_text(graph.program, {kBf16Types, graph.bookkeeping});
  for (const char* lines : {R"(
  %convert.4 = f32[3]{0} convert(bf16[3]{0} %multiply.3)
  %constant.5 = f32[] constant(0)
  %reduce.6 = f32[] reduce(f32[3]{0} %convert.4, f32[] %constant.5), dimensions={0}, to_apply=%add.f32
  %divide.7 = f32[] divide(f32[] %reduce.6, f32[] %p0.1)
  %convert.8 = f64[] convert(f32[] %divide.7)
)",
                            R"(
  %convert.13 = bf16[3]{0} convert(f32[3]{0} %convert.12)
  %multiply.14 = bf16[3]{0} multiply(bf16[3]{0} %p1.2, bf16[3]{0} %convert.13)
)"})
    EXPECT_NE(hlo.find(lines), std::string::npos) << hlo;
  expect_counts_of_texts(graph.program);
}

// As in torch_xla's first step: zeros are created in the graph, and there is no former value to overwrite.
TEST(TensorGraph, CreatesAbsentStates) {
  const auto step = [](std::vector<int32_t> absent) {
    Flat flat;
    const Value momenta = ops::add(ops::mul(flat.momenta, 0.9), flat.weights);
    flat.update(ops::sub(flat.weights, momenta), kWeightType);
    flat.update(momenta, kMomenta);
    return tensor_graph(identity_of(flat, {}, std::move(absent)), layer());
  };
  const Program later = step({}), first = step({kMomenta});
  EXPECT_EQ(size_of(later).inputs, 4);
  EXPECT_EQ(size_of(later).donated, 4);
  EXPECT_EQ(size_of(first).inputs, 2);
  EXPECT_EQ(size_of(first).donated, 2);
  EXPECT_EQ(size_of(first).outputs, 4);
  EXPECT_NE(ir_text(first).find("value=0\n"), std::string::npos);
  for (const Program* graph : {&later, &first}) expect_counts_of_texts(*graph);
}

// A reduction of a whole array becomes one per tensor. Other uses of the whole array see it concatenated. A slice that
// is not one of its tensors is a slice of the whole array.
TEST(TensorGraph, ConcatenatesFlatArraysUsedAsAWhole) {
  Flat flat;
  flat.program.output("squares", ops::sum(ops::mul(flat.weights, flat.weights)).id);
  flat.program.output("softmax", ops::softmax(flat.weights).id);
  flat.program.output("middle", ops::slice(flat.weights, 0, 2, 7).id);
  const Program graph = tensor_graph(identity_of(flat), layer());
  const std::string ir = ir_text(graph);
  EXPECT_EQ(count(ir, "aten::sum\\("), 2);
  EXPECT_EQ(count(ir, "aten::cat\\(%[0-9]+, %[0-9]+\\), xla_shape=f32\\[8\\]"), 1) << ir;
  EXPECT_EQ(count(ir, "aten::softmax\\("), 1);
  EXPECT_EQ(count(ir, "aten::slice\\(%[0-9]+\\), xla_shape=f32\\[5\\]\\{0\\}, slice=\\{\\[2:7:1\\]\\}"), 1) << ir;
  EXPECT_EQ(size_of(graph).outputs, 3);
  expect_counts_of_texts(graph);
}

// A concat written by a hook stays as it is.
TEST(TensorGraph, KeepsConcatsOfOtherSizes) {
  Flat flat;
  const Value x = flat.batch({4});
  const Value parts[] = {x, x};
  flat.program.output("twice", ops::mul(ops::concat(parts, 0), 2.0).id);
  EXPECT_EQ(count(ir_text(tensor_graph(identity_of(flat), layer())), "aten::mul\\("), 1);
}

TEST(TensorGraph, HasOneInputForEqualScalars) {
  for (const double second : {0.5, 0.25}) {
    Flat flat;
    const Value a = flat.number(), b = flat.number();
    flat.program.output("sum", ops::add(a, b).id);
    std::vector<TracedScalar> scalars{{ScalarUse::kOperand, 0.5}, {ScalarUse::kOperand, second}};
    scalars[0].origin = flat.program.node(a.id).origin;
    scalars[1].origin = flat.program.node(b.id).origin;
    const Program graph = tensor_graph(identity_of(flat, scalars), layer());
    EXPECT_EQ(size_of(graph).inputs, second == 0.5 ? 1 : 2);
    expect_counts_of_texts(graph);
  }
}

// Marks of engine bookkeeping are casts to the same type and are not nodes.
TEST(TensorGraph, OmitsMarks) {
  Flat flat;
  flat.program.output("sum", ops::sum(ops::on_host(ops::detach(flat.batch({4})))).id);
  EXPECT_EQ(size_of(tensor_graph(identity_of(flat), layer())).nodes, 2);
}

TEST(TensorGraph, FindsWhichScalarsAreParameters) {
  const std::vector<TracedScalar> scalars{
      {ScalarUse::kOperand, 0.5}, {ScalarUse::kOperand, 1}, {ScalarUse::kOperand, 0.5}};
  const ScalarSignature signature = signature_of(scalars);
  EXPECT_EQ(parameter_of(signature, 0), 0u);
  EXPECT_EQ(parameter_of(signature, 1), std::nullopt);
  EXPECT_EQ(parameter_of(signature, 2), 0u);
}

}  // namespace
}  // namespace runner::backends::tpu
