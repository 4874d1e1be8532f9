// Translates a node of a Program to nodes of ONNX, with one rule per op (onnx_ops.cpp).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "backends/ir/program.h"
#include "runner/formats/onnx_graph.h"

namespace runner::formats {

// A value in the graph. If it is not expanded, its shape in the graph is one that broadcasts to that in the Program.
struct OnnxValue {
  std::string name;
  bool is_expanded = true;
};

// A node of a Program and what its operands have become.
struct OnnxNode {
  OnnxGraph& graph;
  const backends::Program& program;
  backends::ValueId id;
  OnnxShape shape;  // of the result
  std::vector<OnnxValue> operands;
  std::vector<OnnxShape> operand_shapes;
  std::span<const int64_t> attrs, attrs_of_other;  // the same node in the Program with another batch size

  const backends::TensorType& type() const { return program.type(id); }
  const std::string& raw(size_t operand) const { return operands[operand].name; }
  // Returns an operand in the shape that it has in the Program.
  std::string expanded(size_t operand) const;
  // Returns a scalar of the type of operand 0.
  std::string number(double value) const;
};

// How an op becomes ONNX.
struct OnnxRule {
  const char* op = nullptr;                             // a node of this type with the same operands
  OnnxValue (*record)(const OnnxNode& node) = nullptr;  // else nodes recorded here; null: not in a forward Program
};

// Returns the value of a node. Throws Error(kUsage) if ONNX has no such computation.
OnnxValue onnx_value(const OnnxNode& node);

}  // namespace runner::formats
