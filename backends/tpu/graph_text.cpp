#include "backends/tpu/graph_text.h"

#include <algorithm>
#include <map>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/graph/needed.h"
#include "backends/tpu/lowered_graph.h"
#include "backends/tpu/op_names.h"
#include "backends/tpu/tiling.h"

namespace runner::backends::tpu {
namespace {

// "f32[32,64]{1,0}".
std::string shape_text(const TensorType& type) {
  std::vector<int> axes;
  for (int axis = type.shape.rank(); axis-- > 0;) axes.push_back(axis);
  return axes.empty() ? hlo_text(type) : fmt::format("{}{{{}}}", hlo_text(type), fmt::join(axes, ","));
}

// Numbers of the nodes that outputs need, in order; kNoValue for others.
std::vector<ValueId> numbered(const Program& program) {
  std::vector<ValueId> number;
  ValueId next = 0;
  for (const char needed : needed_by_outputs(program)) number.push_back(needed ? next++ : kNoValue);
  return number;
}

// ---- IR ------------------------------------------------------------------------------------------------------------

std::string attributes(const Program& program, ValueId id) {
  const std::span<const int64_t> attrs = program.attrs(id);
  switch (program.node(id).op) {
    case Op::kInput: return "";
    case Op::kConstant: return fmt::format(", value={}", program.constant_value(id));
    case Op::kSum:
    case Op::kReduceMax:
    case Op::kReduceMin:
    case Op::kArgMax:
    case Op::kPermute: return fmt::format(", dims=({})", fmt::join(attrs, ", "));
    case Op::kReshape:
    case Op::kExpand: return fmt::format(", output_size=({})", fmt::join(program.type(id).shape.dims(), ", "));
    default: return attrs.empty() ? "" : fmt::format(", attributes=({})", fmt::join(attrs, ", "));
  }
}

std::string ir_line(const Program& program, const std::vector<ValueId>& number, ValueId id) {
  std::vector<std::string> operands;
  for (const ValueId operand : program.operands(id))
    operands.push_back(fmt::format("%{}", number[static_cast<size_t>(operand)]));
  std::string line = fmt::format("  %{} = {} {}({}), xla_shape={}{}", number[static_cast<size_t>(id)],
                                 shape_text(program.type(id)), names_of(program.node(id).op).ir,
                                 fmt::join(operands, ", "), shape_text(program.type(id)), attributes(program, id));
  if (const SourceMark& mark = program.mark_of(id); mark.known()) line += ", location=" + mark.to_string();
  for (size_t root = 0; root < program.outputs().size(); ++root)
    if (program.outputs()[root].value == id) line += fmt::format(", ROOT={}", root);
  return line + "\n";
}

// ---- HLO -----------------------------------------------------------------------------------------------------------

constexpr std::string_view direction_of(Op op) {
  switch (op) {
    case Op::kEq: return "EQ";
    case Op::kNe: return "NE";
    case Op::kLt: return "LT";
    case Op::kLe: return "LE";
    case Op::kGt: return "GT";
    default: return "GE";
  }
}

constexpr std::string_view reducer_of(Op op) {
  return op == Op::kReduceMax ? "maximum" : op == Op::kReduceMin ? "minimum" : "add";
}

class HloWriter {
 public:
  explicit HloWriter(const Program& program) : program_(program), number_(numbered(program)) {}

  std::string run() {
    for (ValueId id = 0; id < program_.size(); ++id)
      if (number_[static_cast<size_t>(id)] != kNoValue) write(id);
    const std::string tuple = root();
    return fmt::format(
        "HloModule SyncTensorsGraph.{0}{1}, entry_computation_layout={{({2})->({3})}}\n\n{4}"
        "ENTRY %SyncTensorsGraph.{0} ({5}) -> ({3}) {{\n{6}{7}}}\n",
        next_, aliases(), fmt::join(parameter_shapes_, ", "), fmt::join(result_shapes_, ", "), computations(),
        fmt::join(signature_, ", "), body_, tuple);
  }

 private:
  std::string& name(ValueId id) { return names_[id]; }
  std::string typed(ValueId id) { return shape_text(program_.type(id)) + " %" + name(id); }

  void line(const std::string& made, const TensorType& type, const std::string& text) {
    body_ += fmt::format("  %{} = {} {}\n", made, shape_text(type), text);
  }
  std::string fresh(std::string_view opcode) { return fmt::format("{}.{}", opcode, next_++); }

  void write(ValueId id) {
    const Op op = program_.node(id).op;
    if (op == Op::kInput) return parameter(id);
    if (op == Op::kConstant) return constant(id);
    if (op == Op::kRelu) return relu(id);
    const std::string_view opcode = names_of(op).hlo;
    name(id) = fresh(opcode.empty() ? "custom-call" : opcode);
    std::vector<std::string> operands;
    for (const ValueId operand : program_.operands(id)) operands.push_back(typed(operand));
    line(name(id), program_.type(id),
         fmt::format("{}({}){}", opcode.empty() ? "custom-call" : opcode, fmt::join(operands, ", "), details(id)));
  }

  void parameter(ValueId id) {
    const auto index = parameters_.size();
    parameters_.push_back(id);
    const std::string plain = fmt::format("p{}", index);
    name(id) = fresh(plain);
    parameter_shapes_.push_back(shape_text(program_.type(id)));
    signature_.push_back(fmt::format("{}: {}", name(id), hlo_text(program_.type(id))));
    line(name(id), program_.type(id), fmt::format("parameter({}), metadata={{op_type=\"xla__device_data\"}}", index));
  }

  std::string scalar_constant(const TensorType& type, double value) {
    const std::string made = fresh("constant");
    line(made, {type.dtype, {}}, fmt::format("constant({})", value));
    return made;
  }

  // A constant of any shape.
  std::string filled(const TensorType& type, double value) {
    const std::string scalar = scalar_constant(type, value);
    if (type.shape.rank() == 0) return scalar;
    const std::string made = fresh("broadcast");
    line(made, type, fmt::format("broadcast({} %{}), dimensions={{}}", hlo_text({type.dtype, {}}), scalar));
    return made;
  }

  void constant(ValueId id) { name(id) = filled(program_.type(id), program_.constant_value(id)); }

  void relu(ValueId id) {
    const TensorType& type = program_.type(id);
    const std::string zeros = filled(type, 0);
    name(id) = fresh("maximum");
    line(name(id), type, fmt::format("maximum({}, {} %{})", typed(program_.operands(id)[0]), shape_text(type), zeros));
  }

  std::string details(ValueId id) {
    const Op op = program_.node(id).op;
    const std::span<const int64_t> attrs = program_.attrs(id);
    switch (op) {
      case Op::kEq:
      case Op::kNe:
      case Op::kLt:
      case Op::kLe:
      case Op::kGt:
      case Op::kGe: return fmt::format(", direction={}", direction_of(op));
      case Op::kSum:
      case Op::kReduceMax:
      case Op::kReduceMin:
        return fmt::format(", dimensions={{{}}}, to_apply=%{}", fmt::join(attrs, ","),
                           computation(op, program_.type(id).dtype));
      case Op::kAllReduce: return fmt::format(", to_apply=%{}", computation(Op::kSum, program_.type(id).dtype));
      case Op::kPermute: return fmt::format(", dimensions={{{}}}", fmt::join(attrs, ","));
      case Op::kExpand: return broadcast_axes(id);
      case Op::kSlice: return slices(attrs);
      case Op::kPad: return padding(attrs);
      case Op::kConcat: return fmt::format(", dimensions={{{}}}", attrs[0]);
      case Op::kMatmul: return contraction(id);
      default: break;
    }
    return names_of(op).hlo.empty() ? fmt::format(", custom_call_target=\"{}\"", names_of(op).ir) : "";
  }

  std::string broadcast_axes(ValueId id) const {
    const int to = program_.type(id).shape.rank(), from = program_.type(program_.operands(id)[0]).shape.rank();
    std::vector<int> axes;
    for (int axis = to - from; axis < to; ++axis) axes.push_back(axis);
    return fmt::format(", dimensions={{{}}}", fmt::join(axes, ","));
  }

  static std::string slices(std::span<const int64_t> attrs) {
    std::vector<std::string> axes;
    for (size_t at = 0; at + 2 < attrs.size(); at += 3)
      axes.push_back(fmt::format("[{}:{}:{}]", attrs[at], attrs[at + 1], attrs[at + 2]));
    return fmt::format(", slice={{{}}}", fmt::join(axes, ", "));
  }

  static std::string padding(std::span<const int64_t> attrs) {
    std::vector<std::string> axes;
    for (size_t at = 0; at + 1 < attrs.size(); at += 2) axes.push_back(fmt::format("{}_{}", attrs[at], attrs[at + 1]));
    return fmt::format(", padding={}", fmt::join(axes, "x"));
  }

  std::string contraction(ValueId id) const {
    const std::span<const int64_t> attrs = program_.attrs(id);
    const auto axis = [&](size_t operand, bool last) {
      return program_.type(program_.operands(id)[operand]).shape.rank() - (last ? 1 : 2);
    };
    std::string text = fmt::format(", lhs_contracting_dims={{{}}}, rhs_contracting_dims={{{}}}", axis(0, attrs[0] == 0),
                                   axis(1, attrs[1] != 0));
    std::vector<int> batch;
    for (int each = 0; each < program_.type(id).shape.rank() - 2; ++each) batch.push_back(each);
    if (!batch.empty()) text += fmt::format(", lhs_batch_dims={{{0}}}, rhs_batch_dims={{{0}}}", fmt::join(batch, ","));
    return text;
  }

  // The name of what a reduction applies.
  std::string computation(Op op, DType dtype) {
    const std::string name = fmt::format("{}.{}", reducer_of(op), hlo_text({dtype, {}}));
    computations_.emplace(std::string(name.substr(0, name.find('['))), std::pair(reducer_of(op), dtype));
    return name.substr(0, name.find('['));
  }

  std::string computations() const {
    std::string text;
    for (const auto& [name, what] : computations_) {
      const std::string type = hlo_text({what.second, {}});
      text += fmt::format(
          "%{0} (x: {1}, y: {1}) -> {1} {{\n  %x = {1} parameter(0)\n  %y = {1} parameter(1)\n"
          "  ROOT %z = {1} {2}({1} %x, {1} %y)\n}}\n\n",
          name, type, what.first);
    }
    return text;
  }

  std::string root() {
    std::vector<std::string> results;
    for (const Output& output : program_.outputs()) {
      result_shapes_.push_back(shape_text(program_.type(output.value)));
      results.push_back(typed(output.value));
    }
    return fmt::format("  ROOT %{} = ({}) tuple({})\n", fresh("tuple"), fmt::join(result_shapes_, ", "),
                       fmt::join(results, ", "));
  }

  std::string aliases() const {
    std::vector<std::string> pairs;
    for (size_t i = 0; i < program_.outputs().size(); ++i) {
      const Output& output = program_.outputs()[i];
      if (output.state < 0) continue;
      const ValueId input = program_.inputs()[static_cast<size_t>(output.state)].value;
      const auto at = std::ranges::find(parameters_, input);
      if (at != parameters_.end())
        pairs.push_back(fmt::format("{{{}}}: ({}, {{}}, may-alias)", i, at - parameters_.begin()));
    }
    return pairs.empty() ? "" : fmt::format(", input_output_alias={{ {} }}", fmt::join(pairs, ", "));
  }

  const Program& program_;
  const std::vector<ValueId> number_;
  int next_ = 1;
  std::string body_;
  std::map<ValueId, std::string> names_;
  std::vector<ValueId> parameters_;
  std::vector<std::string> parameter_shapes_, result_shapes_, signature_;
  std::map<std::string, std::pair<std::string_view, DType>> computations_;
};

}  // namespace

std::string ir_text(const GraphIdentity& graph) {
  const Program& program = *graph.program;
  const std::vector<ValueId> number = numbered(program);
  std::string text = "IR {\n";
  for (ValueId id = 0; id < program.size(); ++id)
    if (number[static_cast<size_t>(id)] != kNoValue) text += ir_line(program, number, id);
  return text + "}\n";
}

std::string hlo_text(const GraphIdentity& graph) {
  return HloWriter(LoweredGraph(graph, {}).program()).run();
}

}  // namespace runner::backends::tpu
