// A graph of an ONNX model under construction.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "backends/tensor/shape.h"
#include "runner/formats/protobuf.h"

namespace runner::formats {

// A size of an axis: `fixed`, or `per_sample` times the batch size if that is not 0.
struct OnnxSize {
  int64_t fixed = 0, per_sample = 0;
  bool operator==(const OnnxSize&) const = default;
};
using OnnxShape = std::vector<OnnxSize>;

// The number of a type in TensorProto.DataType.
int64_t onnx_type(backends::DType dtype);

// Names that it makes up begin with a slash, so that they differ from those of parameters.
class OnnxGraph {
 public:
  using Attribute = std::pair<std::string_view, std::variant<int64_t, float, std::vector<int64_t>>>;

  // Adds a node with `count` outputs and returns their names.
  std::vector<std::string> outputs_of(std::string_view op, std::span<const std::string> inputs,
                                      std::initializer_list<Attribute> attributes, int count);
  // Adds a node and returns the name of its output.
  std::string node(std::string_view op, std::span<const std::string> inputs,
                   std::initializer_list<Attribute> attributes = {});
  std::string node(std::string_view op, std::initializer_list<std::string> inputs,
                   std::initializer_list<Attribute> attributes = {}) {
    return node(op, std::span(inputs.begin(), inputs.size()), attributes);
  }

  // Add a tensor with its values. Return its name. numbers() and scalar() add equal tensors only once.
  std::string tensor(std::string name, backends::DType dtype, std::span<const int64_t> dims, std::string_view bytes);
  std::string numbers(std::span<const int64_t> values);                               // (n) i64
  std::string scalar(double value, backends::DType dtype);                            // ()
  std::string floats(std::span<const double> values, std::span<const int64_t> dims);  // f32

  // Returns a (n) i64 tensor with the sizes of a shape, which are computed from the first input if they grow with the
  // batch.
  std::string shape(const OnnxShape& shape);

  std::string input(std::string name, backends::DType dtype, const OnnxShape& shape);
  // Renames a value to `name`, as the output of the graph.
  void output(const std::string& value, std::string_view name, backends::DType dtype, const OnnxShape& shape);

  size_t bytes() const { return bytes_; }  // of the tensors
  ProtobufMessage model(const std::map<std::string, std::string>& metadata) const;

 private:
  std::string batch_size();

  std::vector<ProtobufMessage> nodes_, tensors_, inputs_, outputs_;
  std::map<std::string, std::string> named_;  // contents of a small tensor -> its name
  std::string first_input_, batch_size_;
  size_t values_ = 0, bytes_ = 0;
};

}  // namespace runner::formats
