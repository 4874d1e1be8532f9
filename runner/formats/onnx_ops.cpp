// The rules by which ops become ONNX, one for each line of op_list.def.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "backends/ir/op_def.h"
#include "backends/ir/windows.h"
#include "runner/formats/onnx_node.h"
#include "schema/base/error.h"

namespace runner::formats {
namespace {

using backends::Op;

// Result of an element-wise computation over the raw operands.
OnnxValue elementwise(const OnnxNode& node, std::string name) {
  const bool is_expanded = std::ranges::any_of(node.operands, &OnnxValue::is_expanded) || node.shape.empty();
  return {std::move(name), is_expanded};
}

constexpr OnnxRule named(const char* op) {
  return {.op = op};
}
constexpr OnnxRule kNotInForward{};

}  // namespace

// ---- rules ---------------------------------------------------------------------------------------------------------

namespace onnx_rules {

constexpr OnnxRule kInput = kNotInForward;  // the inputs of the graph
constexpr OnnxRule kBarrier = kNotInForward;
constexpr OnnxRule kConstant{.record = [](const OnnxNode& node) -> OnnxValue {
  return {node.graph.scalar(node.program.constant_value(node.id), node.type().dtype), node.shape.empty()};
}};

// ---- element-wise ----

constexpr OnnxRule kNeg = named("Neg"), kAbs = named("Abs"), kSign = named("Sign"), kExp = named("Exp"),
                   kLog = named("Log"), kSqrt = named("Sqrt"), kTanh = named("Tanh"), kSigmoid = named("Sigmoid"),
                   kErf = named("Erf"), kRelu = named("Relu"), kNot = named("Not"), kAdd = named("Add"),
                   kSub = named("Sub"), kMul = named("Mul"), kDiv = named("Div"), kPow = named("Pow"),
                   kMin = named("Min"), kMax = named("Max"), kEq = named("Equal"), kLt = named("Less"),
                   kLe = named("LessOrEqual"), kGt = named("Greater"), kGe = named("GreaterOrEqual"),
                   kAnd = named("And"), kOr = named("Or"), kWhere = named("Where"), kDetach = named("Identity");

constexpr OnnxRule kNe{.record = [](const OnnxNode& node) {
  return elementwise(node, node.graph.node("Not", {node.graph.node("Equal", {node.raw(0), node.raw(1)})}));
}};

constexpr OnnxRule kLog1p{.record = [](const OnnxNode& node) {
  return elementwise(node, node.graph.node("Log", {node.graph.node("Add", {node.raw(0), node.number(1)})}));
}};

constexpr OnnxRule kRsqrt{.record = [](const OnnxNode& node) {
  return elementwise(node, node.graph.node("Reciprocal", {node.graph.node("Sqrt", {node.raw(0)})}));
}};

constexpr OnnxRule kIsFinite{.record = [](const OnnxNode& node) {
  OnnxGraph& graph = node.graph;
  const std::string either = graph.node("Or", {graph.node("IsInf", {node.raw(0)}), graph.node("IsNaN", {node.raw(0)})});
  return elementwise(node, graph.node("Not", {either}));
}};

// x/2 (1 + erf(x/√2)).
constexpr OnnxRule kGelu{.record = [](const OnnxNode& node) {
  OnnxGraph& graph = node.graph;
  const std::string erf = graph.node("Erf", {graph.node("Mul", {node.raw(0), node.number(std::numbers::sqrt2 / 2)})});
  const std::string half = graph.node("Mul", {node.raw(0), node.number(0.5)});
  return elementwise(node, graph.node("Mul", {half, graph.node("Add", {erf, node.number(1)})}));
}};

// x/2 (1 + tanh(√(2/π) (x + 0.044715 x³))).
constexpr OnnxRule kGeluTanh{.record = [](const OnnxNode& node) {
  OnnxGraph& graph = node.graph;
  const std::string cube = graph.node("Mul", {graph.node("Mul", {node.raw(0), node.raw(0)}), node.raw(0)});
  const std::string inner = graph.node("Add", {node.raw(0), graph.node("Mul", {cube, node.number(0.044715)})});
  const std::string tanh =
      graph.node("Tanh", {graph.node("Mul", {inner, node.number(std::sqrt(2 / std::numbers::pi))})});
  const std::string half = graph.node("Mul", {node.raw(0), node.number(0.5)});
  return elementwise(node, graph.node("Mul", {half, graph.node("Add", {tanh, node.number(1)})}));
}};

constexpr OnnxRule kSilu{.record = [](const OnnxNode& node) {
  return elementwise(node, node.graph.node("Mul", {node.raw(0), node.graph.node("Sigmoid", {node.raw(0)})}));
}};

constexpr OnnxRule kCast{.record = [](const OnnxNode& node) {
  return elementwise(node, node.graph.node("Cast", {node.raw(0)}, {{"to", onnx_type(node.type().dtype)}}));
}};

// ---- reductions: the axes are removed ----

constexpr OnnxRule kSum{.record = [](const OnnxNode& node) -> OnnxValue {
  if (node.attrs.empty()) return {node.expanded(0)};
  return {node.graph.node("ReduceSum", {node.expanded(0), node.graph.numbers(node.attrs)}, {{"keepdims", int64_t{0}}})};
}};

namespace {

template <const char* op>
OnnxValue extremum(const OnnxNode& node) {
  if (node.attrs.empty()) return {node.expanded(0)};
  const std::vector<int64_t> axes(node.attrs.begin(), node.attrs.end());
  return {node.graph.node(op, {node.expanded(0)}, {{"axes", axes}, {"keepdims", int64_t{0}}})};
}
constexpr char kReduceMaxName[] = "ReduceMax", kReduceMinName[] = "ReduceMin";

}  // namespace

constexpr OnnxRule kReduceMax{.record = extremum<kReduceMaxName>}, kReduceMin{.record = extremum<kReduceMinName>};

constexpr OnnxRule kArgMax{.record = [](const OnnxNode& node) -> OnnxValue {
  return {node.graph.node("ArgMax", {node.expanded(0)}, {{"axis", node.attrs[0]}, {"keepdims", int64_t{0}}})};
}};

// ---- movement ----

constexpr OnnxRule kReshape{.record = [](const OnnxNode& node) -> OnnxValue {
  const auto grows = [](const OnnxSize& size) { return size.per_sample > 0; };
  std::vector<int64_t> sizes;  // −1: the size that the others leave
  for (const OnnxSize& size : node.shape) sizes.push_back(grows(size) ? -1 : size.fixed);
  const bool is_known = std::ranges::count_if(node.shape, grows) < 2;
  const std::string x = node.expanded(0), to = is_known ? node.graph.numbers(sizes) : node.graph.shape(node.shape);
  return {node.graph.node("Reshape", {x, to})};
}};

constexpr OnnxRule kPermute{.record = [](const OnnxNode& node) -> OnnxValue {
  const std::vector<int64_t> axes(node.attrs.begin(), node.attrs.end());
  return {node.graph.node("Transpose", {node.expanded(0)}, {{"perm", axes}})};
}};

constexpr OnnxRule kExpand{.record = [](const OnnxNode& node) -> OnnxValue { return {node.raw(0), false}; }};

constexpr OnnxRule kSlice{.record = [](const OnnxNode& node) -> OnnxValue {
  std::vector<int64_t> starts, stops, axes, steps;
  for (size_t axis = 0; axis < node.shape.size(); ++axis) {
    const std::span<const int64_t> slice = node.attrs.subspan(3 * axis, 3);
    const OnnxSize& size = node.operand_shapes[0][axis];
    const bool is_whole = slice[0] == 0 && slice[2] == 1 && node.shape[axis] == size;
    if (is_whole) continue;
    starts.push_back(slice[0]);
    stops.push_back(slice[1]);
    axes.push_back(static_cast<int64_t>(axis));
    steps.push_back(slice[2]);
    RUN_CHECK(std::ranges::equal(slice, node.attrs_of_other.subspan(3 * axis, 3)), ErrorKind::kUsage,
              "the model cuts a part out of the batch that depends on the batch size");
  }
  OnnxGraph& graph = node.graph;
  return {graph.node("Slice", {node.expanded(0), graph.numbers(starts), graph.numbers(stops), graph.numbers(axes),
                               graph.numbers(steps)})};
}};

constexpr OnnxRule kPad{.record = [](const OnnxNode& node) -> OnnxValue {
  std::vector<int64_t> margins;  // before each axis, then after each
  for (const size_t side : {0, 1})
    for (size_t axis = 0; axis < node.shape.size(); ++axis) margins.push_back(node.attrs[2 * axis + side]);
  return {node.graph.node("Pad", {node.expanded(0), node.graph.numbers(margins), node.number(0)})};
}};

constexpr OnnxRule kConcat{.record = [](const OnnxNode& node) -> OnnxValue {
  std::vector<std::string> parts;
  for (size_t i = 0; i < node.operands.size(); ++i) parts.push_back(node.expanded(i));
  return {node.graph.node("Concat", parts, {{"axis", node.attrs[0]}})};
}};

// ---- indexing ----

constexpr OnnxRule kGather{.record = [](const OnnxNode& node) -> OnnxValue {
  return {node.graph.node("GatherElements", {node.expanded(0), node.expanded(1)}, {{"axis", node.attrs[0]}})};
}};

constexpr OnnxRule kScatterAdd = kNotInForward;
constexpr OnnxRule kIndexCopy = kNotInForward;

constexpr OnnxRule kOneHot{.record = [](const OnnxNode& node) -> OnnxValue {
  OnnxGraph& graph = node.graph;
  const double values[] = {0, 1};
  const int64_t two[] = {2};
  return {graph.node("OneHot", {node.expanded(0), graph.numbers(node.attrs.first(1)), graph.floats(values, two)})};
}};

constexpr OnnxRule kEmbedding{.record = [](const OnnxNode& node) -> OnnxValue {
  return {node.graph.node("Gather", {node.expanded(0), node.expanded(1)})};
}};

constexpr OnnxRule kEmbeddingGrad = kNotInForward;

// ---- contractions and rows ----

namespace {

std::string transposed(const OnnxNode& node, size_t operand) {
  std::vector<int64_t> axes(node.operand_shapes[operand].size());
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int64_t>(i);
  std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
  return node.graph.node("Transpose", {node.expanded(operand)}, {{"perm", axes}});
}

}  // namespace

constexpr OnnxRule kMatmul{.record = [](const OnnxNode& node) -> OnnxValue {
  OnnxGraph& graph = node.graph;
  const bool ta = node.attrs[0] != 0, tb = node.attrs[1] != 0, adds = node.operands.size() > 2;
  if (node.shape.size() == 2) {
    std::vector<std::string> operands = {node.expanded(0), node.expanded(1)};
    if (adds) operands.push_back(node.raw(2));
    return {graph.node("Gemm", operands, {{"transA", int64_t{ta}}, {"transB", int64_t{tb}}})};
  }
  const std::string a = ta ? transposed(node, 0) : node.expanded(0), b = tb ? transposed(node, 1) : node.expanded(1);
  const std::string product = graph.node("MatMul", {a, b});
  return {adds ? graph.node("Add", {product, node.raw(2)}) : product};
}};

// ---- convolution and pooling ----

namespace {

using Numbers = std::vector<int64_t>;

// One number of each window.
Numbers of_each(const std::vector<backends::Window>& windows, int64_t backends::Window::*number) {
  Numbers numbers;
  for (const backends::Window& window : windows) numbers.push_back(window.*number);
  return numbers;
}

// The padding before each axis, then after each.
Numbers pads(const std::vector<backends::Window>& windows) {
  Numbers numbers = of_each(windows, &backends::Window::before);
  for (const backends::Window& window : windows) numbers.push_back(window.after);
  return numbers;
}

}  // namespace

constexpr OnnxRule kConv{.record = [](const OnnxNode& node) -> OnnxValue {
  const auto attributes = backends::ConvAttributes::of(node.attrs);
  const std::vector<backends::Window> windows = backends::windows_of(attributes.windows);
  return {node.graph.node("Conv", {node.expanded(0), node.expanded(1)},
                          {{"group", attributes.groups},
                           {"strides", of_each(windows, &backends::Window::stride)},
                           {"dilations", of_each(windows, &backends::Window::dilation)},
                           {"pads", pads(windows)}})};
}};

// A transposed convolution.
constexpr OnnxRule kConvGradX{.record = [](const OnnxNode& node) -> OnnxValue {
  const auto attributes = backends::ConvAttributes::of(node.attrs);
  const std::vector<backends::Window> windows = backends::windows_of(attributes.windows);
  Numbers rest;  // elements after the last window
  for (size_t i = 0; i < windows.size(); ++i) {
    const int64_t size = node.type().shape[static_cast<int>(2 + i)];
    const backends::Window& window = windows[i];
    rest.push_back(size + window.before + window.after - window.extent() - (window.count(size) - 1) * window.stride);
  }
  return {node.graph.node("ConvTranspose", {node.expanded(0), node.expanded(1)},
                          {{"group", attributes.groups},
                           {"strides", of_each(windows, &backends::Window::stride)},
                           {"dilations", of_each(windows, &backends::Window::dilation)},
                           {"pads", pads(windows)},
                           {"output_padding", rest}})};
}};

constexpr OnnxRule kMaxPool{.record = [](const OnnxNode& node) -> OnnxValue {
  const std::vector<backends::Window> windows = backends::windows_of(node.attrs);
  return {node.graph.node("MaxPool", {node.expanded(0)},
                          {{"kernel_shape", of_each(windows, &backends::Window::size)},
                           {"strides", of_each(windows, &backends::Window::stride)},
                           {"dilations", of_each(windows, &backends::Window::dilation)},
                           {"pads", pads(windows)}})};
}};

// The mean of each window, padding included, times its elements.
constexpr OnnxRule kWindowSum{.record = [](const OnnxNode& node) -> OnnxValue {
  const std::vector<backends::Window> windows = backends::windows_of(node.attrs);
  double elements = 1;
  for (const backends::Window& window : windows) elements *= static_cast<double>(window.size);
  const std::string mean = node.graph.node("AveragePool", {node.expanded(0)},
                                           {{"kernel_shape", of_each(windows, &backends::Window::size)},
                                            {"strides", of_each(windows, &backends::Window::stride)},
                                            {"pads", pads(windows)},
                                            {"count_include_pad", int64_t{1}}});
  return {node.graph.node("Mul", {mean, node.number(elements)})};
}};

constexpr OnnxRule kSoftmax{.record = [](const OnnxNode& node) -> OnnxValue {
  return {node.graph.node("Softmax", {node.expanded(0)}, {{"axis", int64_t{-1}}})};
}};

constexpr OnnxRule kLogSoftmax{.record = [](const OnnxNode& node) -> OnnxValue {
  return {node.graph.node("LogSoftmax", {node.expanded(0)}, {{"axis", int64_t{-1}}})};
}};

constexpr OnnxRule kLayerNorm{.record = [](const OnnxNode& node) -> OnnxValue {
  const auto eps = static_cast<float>(node.program.attr_f64(node.id, 0));
  return {node.graph.node("LayerNormalization", {node.expanded(0), node.expanded(1), node.expanded(2)},
                          {{"axis", int64_t{-1}}, {"epsilon", eps}})};
}};

constexpr OnnxRule kRmsNorm{.record = [](const OnnxNode& node) -> OnnxValue {
  OnnxGraph& graph = node.graph;
  const std::string x = node.expanded(0), square = graph.node("Mul", {x, x});
  const std::vector<int64_t> last{-1};
  const std::string mean = graph.node("ReduceMean", {square}, {{"axes", last}, {"keepdims", int64_t{1}}});
  const std::string root =
      graph.node("Sqrt", {graph.node("Add", {mean, node.number(node.program.attr_f64(node.id, 0))})});
  return {graph.node("Mul", {graph.node("Div", {x, root}), node.expanded(1)})};
}};

constexpr OnnxRule kRotaryTable{.record = [](const OnnxNode& node) -> OnnxValue {
  OnnxGraph& graph = node.graph;
  const int64_t last[] = {-1};
  const std::string places = graph.node("Cast", {node.expanded(0)}, {{"to", onnx_type(node.type().dtype)}});
  const std::string angles =
      graph.node("Mul", {graph.node("Unsqueeze", {places, graph.numbers(last)}), node.expanded(1)});
  return {graph.node("Concat", {graph.node("Cos", {angles}), graph.node("Sin", {angles})}, {{"axis", int64_t{-1}}})};
}};

namespace {

// Elements [first, last) of the last axis.
std::string columns(OnnxGraph& graph, const std::string& x, int64_t first, int64_t last) {
  const int64_t starts[] = {first}, stops[] = {last}, axes[] = {-1};
  return graph.node("Slice", {x, graph.numbers(starts), graph.numbers(stops), graph.numbers(axes)});
}

}  // namespace

constexpr OnnxRule kRotary{.record = [](const OnnxNode& node) -> OnnxValue {
  OnnxGraph& graph = node.graph;
  const int64_t width = node.type().shape.back(), half = width / 2, heads[] = {1};
  const std::string x = node.expanded(0);
  std::string table = node.expanded(1);
  if (node.operand_shapes[1].size() == 3) table = graph.node("Unsqueeze", {table, graph.numbers(heads)});
  const std::string cos = columns(graph, table, 0, half), sin = columns(graph, table, half, width);
  const std::string low = columns(graph, x, 0, half), high = columns(graph, x, half, width);
  const bool inverse = node.attrs[0] != 0;
  const std::string low_part = graph.node("Mul", {high, sin}), high_part = graph.node("Mul", {low, sin});
  const std::string new_low = graph.node(inverse ? "Add" : "Sub", {graph.node("Mul", {low, cos}), low_part});
  const std::string new_high = graph.node(inverse ? "Sub" : "Add", {graph.node("Mul", {high, cos}), high_part});
  return {graph.node("Concat", {new_low, new_high}, {{"axis", int64_t{-1}}})};
}};

// Of equal elements, ONNX takes the first one first, too.
constexpr OnnxRule kTopK{.record = [](const OnnxNode& node) -> OnnxValue {
  OnnxGraph& graph = node.graph;
  const int64_t count[] = {node.attrs[0]};
  const std::string inputs[] = {node.expanded(0), graph.numbers(count)};
  return {
      graph.outputs_of("TopK", inputs, {{"axis", int64_t{-1}}, {"largest", int64_t{1}}, {"sorted", int64_t{1}}}, 2)[1]};
}};

constexpr OnnxRule kAttention = kNotInForward;  // composed before (compose_attention())

// With means and scales of the channels, as element-wise ops.
constexpr OnnxRule kBatchNorm{.record = [](const OnnxNode& node) -> OnnxValue {
  OnnxGraph& graph = node.graph;
  Numbers over_axes(node.shape.size() - 1, 1);
  over_axes[0] = -1;
  const auto of_channels = [&](size_t operand) {
    return graph.node("Reshape", {node.expanded(operand), graph.numbers(over_axes)});
  };
  const std::string y = graph.node("Mul", {graph.node("Sub", {node.expanded(0), of_channels(1)}), of_channels(2)});
  return {node.operands.size() > 3 ? graph.node("Add", {y, of_channels(3)}) : y};
}};

constexpr OnnxRule kCrossEntropy = kNotInForward, kCrossEntropyGrad = kNotInForward, kLayerNormGradX = kNotInForward,
                   kLayerNormGradGamma = kNotInForward, kDropoutMask = kNotInForward, kRandomUniform = kNotInForward,
                   kRandomNormal = kNotInForward, kAllReduce = kNotInForward, kLabelRank = kNotInForward,
                   kAttentionGrad = kNotInForward, kRmsNormGradX = kNotInForward, kRmsNormGradWeight = kNotInForward,
                   kConvGradW = kNotInForward, kChannelSum = kNotInForward, kMaxPoolGrad = kNotInForward,
                   kWindowSumGrad = kNotInForward, kGeluSlope = kNotInForward, kGeluTanhSlope = kNotInForward,
                   kSiluSlope = kNotInForward;

}  // namespace onnx_rules

namespace {

constexpr OnnxRule kRules[] = {
#define RUNNER_OP(id, name, kind, least, most) onnx_rules::id,
#include "backends/ir/op_list.def"
};

}  // namespace

// ---- nodes ---------------------------------------------------------------------------------------------------------

std::string OnnxNode::expanded(size_t operand) const {
  const OnnxValue& value = operands[operand];
  if (value.is_expanded) return value.name;
  const std::string sizes = graph.shape(operand_shapes[operand]);
  return graph.node("Expand", {value.name, sizes});
}

std::string OnnxNode::number(double value) const {
  return graph.scalar(value, program.type(program.operands(id)[0]).dtype);
}

OnnxValue onnx_value(const OnnxNode& node) {
  const Op op = node.program.node(node.id).op;
  const OnnxRule& rule = kRules[static_cast<size_t>(op)];
  if (rule.record != nullptr) return rule.record(node);
  RUN_CHECK(rule.op != nullptr, ErrorKind::kUsage, "the model computes {}, which ONNX models do not have", name_of(op));
  std::vector<std::string> operands;
  for (const OnnxValue& operand : node.operands) operands.push_back(operand.name);
  return elementwise(node, node.graph.node(rule.op, operands));
}

}  // namespace runner::formats
