#include "runner/formats/onnx.h"

#include <algorithm>

#include "backends/ir/op_def.h"
#include "backends/ir/passes/passes.h"
#include "runner/formats/onnx_node.h"
#include "schema/base/error.h"

namespace runner::formats {
namespace {

using backends::Op;
using backends::Program;
using backends::Shape;
using backends::ValueId;

constexpr size_t kMaxBytes = 2'000'000'000;  // of a message, with room for the graph

class Translation {
 public:
  explicit Translation(const OnnxExport& model)
      : model_(model),
        program_(backends::compose_attention(model.first.program)),
        other_(backends::compose_attention(model.second.program)) {
    RUN_CHECK(same_ops(program_, other_), ErrorKind::kUsage,
              "the model computes something else for another batch size");
  }

  std::string run() {
    std::vector<OnnxValue> values(static_cast<size_t>(program_.size()));
    std::vector<bool> is_known(values.size());
    for (const OnnxWeight& weight : model_.weights) is_known[static_cast<size_t>(weight.value)] = true;
    const ValueId output = program_.outputs()[0].value;
    const std::vector<bool> needed = needed_above(output, is_known);
    for (const OnnxWeight& weight : model_.weights)
      if (needed[static_cast<size_t>(weight.value)])
        values[static_cast<size_t>(weight.value)] = {add_weight(weight), true};
    for (ValueId id = 0; id <= output; ++id) {
      const auto at = static_cast<size_t>(id);
      if (!needed[at] || is_known[at]) continue;
      if (program_.node(id).op == Op::kInput) {
        values[at] = {add_input(id), true};
      } else {
        values[at] = translate(id, values);
      }
    }
    const OnnxShape shape = shape_of(output);
    std::string result = values[static_cast<size_t>(output)].name;
    if (!values[static_cast<size_t>(output)].is_expanded) {
      const std::string sizes = graph_.shape(shape);
      result = graph_.node("Expand", {result, sizes});
    }
    graph_.output(result, model_.output, program_.type(output).dtype, shape);
    return graph_.model(model_.metadata).bytes();
  }

 private:
  // By ValueId: whether `output` needs the value, where known values need nothing.
  std::vector<bool> needed_above(ValueId output, const std::vector<bool>& is_known) const {
    std::vector<bool> needed(static_cast<size_t>(program_.size()));
    needed[static_cast<size_t>(output)] = true;
    for (ValueId id = output; id >= 0; --id) {
      if (!needed[static_cast<size_t>(id)] || is_known[static_cast<size_t>(id)]) continue;
      for (const ValueId operand : program_.operands(id)) needed[static_cast<size_t>(operand)] = true;
    }
    return needed;
  }

  OnnxShape shape_of(ValueId id) const {
    const Shape &a = program_.type(id).shape, &b = other_.type(id).shape;
    OnnxShape shape;
    for (int axis = 0; axis < a.rank(); ++axis) {
      if (a[axis] == b[axis]) {
        shape.push_back({.fixed = a[axis]});
        continue;
      }
      const int64_t per_sample = a[axis] / model_.first.samples;
      RUN_CHECK(per_sample * model_.first.samples == a[axis] && per_sample * model_.second.samples == b[axis],
                ErrorKind::kUsage, "the model computes {} of a batch of {}, which is no multiple of it",
                program_.type(id).to_string(), model_.first.samples);
      shape.push_back({.per_sample = per_sample});
    }
    return shape;
  }

  std::string add_weight(const OnnxWeight& weight) {
    const bool is_taken =
        weight.name == model_.output || std::ranges::any_of(program_.inputs(), [&](const backends::Input& input) {
          return input.name == weight.name && input.kind != backends::InputKind::kState;
        });
    RUN_CHECK(!is_taken, ErrorKind::kUsage,
              "a parameter and an input or output of the model have the name {}; rename the parameter", weight.name);
    return graph_.tensor(weight.name, backends::DType::kF32, weight.shape.dims(),
                         {reinterpret_cast<const char*>(weight.bytes.data()), weight.bytes.size()});
  }

  std::string add_input(ValueId id) {
    const backends::Input& input = *program_.input_of(id);
    RUN_CHECK(std::ranges::find(model_.inputs, input.name) != model_.inputs.end(), ErrorKind::kUsage,
              "the model needs {} to predict, which an exported model does not get",
              input.name.ends_with("_key") ? "random numbers" : input.name);
    std::string name = graph_.input(input.name, program_.type(id).dtype, shape_of(id));
    return input.name == "features" && model_.scaling ? scaled(name, id) : name;
  }

  std::string scaled(std::string x, ValueId id) {
    const OnnxScaling& scaling = *model_.scaling;
    const std::span<const int64_t> sample = program_.type(id).shape.dims().subspan(1);
    std::vector<int64_t> dims(sample.begin(), sample.end());
    if (std::ssize(scaling.center) < backends::Shape(sample).elements()) dims = {std::ssize(scaling.center), 1, 1};
    if (sample.size() == 2 && dims.size() == 3) dims = {1, 1};  // (H, W) has one channel
    if (scaling.scale != 1) x = graph_.node("Mul", {x, graph_.scalar(scaling.scale, backends::DType::kF32)});
    if (!scaling.center.empty()) x = graph_.node("Sub", {x, graph_.floats(scaling.center, dims)});
    if (!scaling.spread.empty()) x = graph_.node("Div", {x, graph_.floats(scaling.spread, dims)});
    return x;
  }

  OnnxValue translate(ValueId id, const std::vector<OnnxValue>& values) {
    OnnxNode node{.graph = graph_,
                  .program = program_,
                  .id = id,
                  .shape = shape_of(id),
                  .operands = {},
                  .operand_shapes = {},
                  .attrs = program_.attrs(id),
                  .attrs_of_other = other_.attrs(id)};
    for (const ValueId operand : program_.operands(id)) {
      node.operands.push_back(values[static_cast<size_t>(operand)]);
      node.operand_shapes.push_back(shape_of(operand));
    }
    const Op op = program_.node(id).op;
    RUN_CHECK(op == Op::kSlice || std::ranges::equal(node.attrs, node.attrs_of_other), ErrorKind::kUsage,
              "the operation {} of the model contains the batch size, but an ONNX model must accept any batch size",
              name_of(op));
    return onnx_value(node);
  }

  const OnnxExport& model_;
  const Program program_, other_;
  OnnxGraph graph_;
};

}  // namespace

std::string onnx_model(const OnnxExport& model) {
  size_t bytes = 0;
  for (const OnnxWeight& weight : model.weights) bytes += weight.bytes.size();
  RUN_CHECK(bytes <= kMaxBytes, ErrorKind::kUsage,
            "the model has {} bytes of weights, but an ONNX file can hold at most 2 GB; write a .safetensors file",
            bytes);
  return Translation(model).run();
}

}  // namespace runner::formats
