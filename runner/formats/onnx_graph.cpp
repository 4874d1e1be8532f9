#include "runner/formats/onnx_graph.h"

#include <fmt/format.h>

#include "backends/tensor/float16.h"
#include "schema/base/error.h"

namespace runner::formats {
namespace {

using backends::DType;

// Fields of the messages in onnx.proto.
enum ModelField : uint32_t { kIrVersion = 1, kProducer = 2, kGraph = 7, kOpsets = 8, kMetadata = 14 };
enum GraphField : uint32_t { kNodes = 1, kGraphName = 2, kInitializers = 5, kInputs = 11, kOutputs = 12 };
enum NodeField : uint32_t { kNodeInput = 1, kNodeOutput = 2, kNodeName = 3, kOpType = 4, kAttribute = 5 };
enum AttributeField : uint32_t { kAttributeName = 1, kFloat = 2, kInt = 3, kInts = 8, kType = 20 };
enum TensorField : uint32_t { kDims = 1, kDataType = 2, kTensorName = 8, kRawData = 9 };

ProtobufMessage attribute(const OnnxGraph::Attribute& named) {
  const auto& [name, value] = named;
  ProtobufMessage message = ProtobufMessage().add(kAttributeName, name);
  if (const auto* number = std::get_if<float>(&value)) return message.add(kFloat, *number).add(kType, 1);
  if (const auto* integer = std::get_if<int64_t>(&value)) return message.add(kInt, *integer).add(kType, 2);
  for (const int64_t integer : std::get<std::vector<int64_t>>(value)) message.add(kInts, integer);
  return message.add(kType, 7);
}

// ValueInfoProto: name = 1, type = 2; TypeProto: tensor_type = 1; its elem_type = 1, shape = 2; TensorShapeProto: dim =
// 1; Dimension: dim_value = 1, dim_param = 2.
ProtobufMessage value_info(std::string_view name, DType dtype, const OnnxShape& shape) {
  ProtobufMessage dims;
  for (const OnnxSize& size : shape) {
    ProtobufMessage dim;
    if (size.per_sample == 0) dim.add(1, size.fixed);
    if (size.per_sample == 1) dim.add(2, std::string_view("batch"));
    if (size.per_sample > 1) dim.add(2, fmt::format("{} * batch", size.per_sample));
    dims.add(1, dim);
  }
  const ProtobufMessage tensor = ProtobufMessage().add(1, onnx_type(dtype)).add(2, dims);
  return ProtobufMessage().add(1, name).add(2, ProtobufMessage().add(1, tensor));
}

}  // namespace

int64_t onnx_type(DType dtype) {
  switch (dtype) {
    case DType::kF32: return 1;
    case DType::kI32: return 6;
    case DType::kI64: return 7;
    case DType::kBool: return 9;
    case DType::kF16: return 10;
    case DType::kF64: return 11;
    case DType::kBf16: return 16;
  }
  return 0;
}

std::vector<std::string> OnnxGraph::outputs_of(std::string_view op, std::span<const std::string> inputs,
                                               std::initializer_list<Attribute> attributes, int count) {
  std::vector<std::string> outputs;
  ProtobufMessage message;
  for (const std::string& input : inputs) message.add(kNodeInput, input);
  while (std::ssize(outputs) < count)
    message.add(kNodeOutput, outputs.emplace_back(fmt::format("/{}_{}", op, ++values_)));
  message.add(kNodeName, outputs.front()).add(kOpType, op);
  for (const Attribute& each : attributes) message.add(kAttribute, attribute(each));
  nodes_.push_back(std::move(message));
  return outputs;
}

std::string OnnxGraph::node(std::string_view op, std::span<const std::string> inputs,
                            std::initializer_list<Attribute> attributes) {
  return outputs_of(op, inputs, attributes, 1).front();
}

std::string OnnxGraph::tensor(std::string name, DType dtype, std::span<const int64_t> dims, std::string_view bytes) {
  ProtobufMessage message;
  for (const int64_t dim : dims) message.add(kDims, dim);
  tensors_.push_back(message.add(kDataType, onnx_type(dtype)).add(kTensorName, name).add(kRawData, bytes));
  bytes_ += bytes.size();
  return name;
}

std::string OnnxGraph::numbers(std::span<const int64_t> values) {
  const std::string_view bytes(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  const auto [known, is_new] = named_.try_emplace(fmt::format("{} {}", values.size(), bytes));
  const int64_t dims[] = {std::ssize(values)};
  if (is_new) known->second = tensor(fmt::format("/sizes_{}", named_.size()), DType::kI64, dims, bytes);
  return known->second;
}

std::string OnnxGraph::scalar(double value, DType dtype) {
  std::string bytes(size_of(dtype), '\0');
  backends::store_element(dtype, value, reinterpret_cast<std::byte*>(bytes.data()));
  const auto [known, is_new] = named_.try_emplace(fmt::format("{} {}", name_of(dtype), bytes));
  if (is_new) known->second = tensor(fmt::format("/number_{}", named_.size()), dtype, {}, bytes);
  return known->second;
}

std::string OnnxGraph::floats(std::span<const double> values, std::span<const int64_t> dims) {
  std::string bytes;
  for (const double value : values) append_bytes_of(bytes, static_cast<float>(value));
  return tensor(fmt::format("/values_{}", tensors_.size()), DType::kF32, dims, bytes);
}

// (1) i64.
std::string OnnxGraph::batch_size() {
  RUN_CHECK(!first_input_.empty(), ErrorKind::kUsage, "the outputs of the model do not depend on its inputs");
  if (batch_size_.empty()) batch_size_ = node("Shape", {first_input_}, {{"start", int64_t{0}}, {"end", int64_t{1}}});
  return batch_size_;
}

std::string OnnxGraph::shape(const OnnxShape& shape) {
  std::vector<std::string> parts;
  std::vector<int64_t> fixed;  // sizes not yet in parts
  const auto end_fixed = [&] {
    if (!fixed.empty()) parts.push_back(numbers(fixed));
    fixed.clear();
  };
  for (const OnnxSize& size : shape) {
    if (size.per_sample == 0) {
      fixed.push_back(size.fixed);
      continue;
    }
    end_fixed();
    const int64_t factor[] = {size.per_sample};
    parts.push_back(size.per_sample == 1 ? batch_size() : node("Mul", {batch_size(), numbers(factor)}));
  }
  if (parts.empty() || !fixed.empty()) parts.push_back(numbers(fixed));
  return parts.size() == 1 ? parts.front() : node("Concat", parts, {{"axis", int64_t{0}}});
}

std::string OnnxGraph::input(std::string name, DType dtype, const OnnxShape& shape) {
  if (first_input_.empty()) first_input_ = name;
  inputs_.push_back(value_info(name, dtype, shape));
  return name;
}

void OnnxGraph::output(const std::string& value, std::string_view name, DType dtype, const OnnxShape& shape) {
  nodes_.push_back(ProtobufMessage()
                       .add(kNodeInput, value)
                       .add(kNodeOutput, name)
                       .add(kNodeName, std::string_view("/Identity"))
                       .add(kOpType, std::string_view("Identity")));
  outputs_.push_back(value_info(name, dtype, shape));
}

// OperatorSetIdProto: domain = 1, version = 2; StringStringEntryProto: key = 1, value = 2.
ProtobufMessage OnnxGraph::model(const std::map<std::string, std::string>& metadata) const {
  ProtobufMessage graph;
  for (const ProtobufMessage& node : nodes_) graph.add(kNodes, node);
  graph.add(kGraphName, std::string_view("model"));
  for (const ProtobufMessage& tensor : tensors_) graph.add(kInitializers, tensor);
  for (const ProtobufMessage& input : inputs_) graph.add(kInputs, input);
  for (const ProtobufMessage& output : outputs_) graph.add(kOutputs, output);
  ProtobufMessage model;
  model.add(kIrVersion, 8).add(kProducer, std::string_view("runner")).add(kGraph, graph);
  model.add(kOpsets, ProtobufMessage().add(1, std::string_view("")).add(2, 17));
  for (const auto& [key, value] : metadata)
    model.add(kMetadata, ProtobufMessage().add(1, std::string_view(key)).add(2, std::string_view(value)));
  return model;
}

}  // namespace runner::formats
