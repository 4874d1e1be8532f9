#include "backends/tpu/graph_text.h"

#include <map>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/ir/op_def.h"
#include "backends/ir/windows.h"
#include "backends/tpu/numerics.h"

namespace runner::backends::tpu {
namespace {

// The value as the device stores it, with enough digits to distinguish it from others of its dtype; bf16 with four
// significant digits, like XLA.
std::string number_text(const Program& program, ValueId constant, const ShownTypes& types) {
  const double number = program.constant_value(constant);
  const DType dtype = types.of(program, constant).dtype;
  if (dtype == DType::kF64) return fmt::format("{}", number);
  if (dtype != DType::kBf16) return fmt::format("{}", static_cast<float>(number));
  return fmt::format("{:.4g}", held_on_device(dtype, number));
}

// Example: "f32[32,64]{1,0}".
std::string shape_text(const TensorType& type) {
  std::vector<int> axes;
  for (int axis = type.shape.rank(); axis-- > 0;) axes.push_back(axis);
  return axes.empty() ? hlo_text(type) : fmt::format("{}{{{}}}", hlo_text(type), fmt::join(axes, ","));
}

// ---- IR ------------------------------------------------------------------------------------------------------------

std::string slices_text(std::span<const int64_t> numbers) {
  std::vector<std::string> axes;
  for (size_t at = 0; at + 2 < numbers.size(); at += 3)
    axes.push_back(fmt::format("[{}:{}:{}]", numbers[at], numbers[at + 1], numbers[at + 2]));
  return fmt::format("{}", fmt::join(axes, ", "));
}

// The value of an attribute as PyTorch writes it.
std::string ir_value(const Program& program, ValueId id, const AttributeValue& value) {
  switch (value.attribute->type) {
    case AttributeType::kF64: return fmt::format("{}", unpack_f64(value.numbers[0]));
    case AttributeType::kSlices: return slices_text(value.numbers);
    case AttributeType::kWindows: return windows_text(value.numbers);
    case AttributeType::kShape: return fmt::format("{}", fmt::join(program.type(id).shape.dims(), ", "));
    default: return fmt::format("{}", fmt::join(value.numbers, ", "));
  }
}

std::string leaf_text(const Program& program, ValueId id, const ShownTypes& types) {
  if (program.node(id).op == Op::kConstant) return fmt::format(", value={}", number_text(program, id, types));
  return fmt::format(", name=\"{}\"", program.input_of(id)->name);
}

std::string attributes(const Program& program, ValueId id, const ShownTypes& types) {
  if (kind_of(program.node(id).op) == OpKind::kLeaf) return leaf_text(program, id, types);
  std::string text;
  for (const AttributeValue& value : attributes_of(program, id)) {
    const std::string_view shown = value.attribute->aten;
    if (!shown.empty()) text += ", " + fmt::format(fmt::runtime(shown), ir_value(program, id, value));
  }
  return text;
}

std::string ir_line(const Program& program, ValueId id, const ShownTypes& types) {
  const std::string type = shape_text(types.of(program, id));
  std::string line = fmt::format("  %{} = {} {}(%{}), xla_shape={}{}", id, type, aten_name(program, id),
                                 fmt::join(program.operands(id), ", %"), type, attributes(program, id, types));
  if (program.operands(id).empty()) line.replace(line.find("(%)"), 3, "()");
  if (const SourceMark& mark = program.mark_of(id); mark.known()) line += ", location=" + mark.to_string();
  for (size_t root = 0; root < program.outputs().size(); ++root)
    if (program.outputs()[root].value == id) line += fmt::format(", ROOT={}", root);
  return line + "\n";
}

// ---- HLO -----------------------------------------------------------------------------------------------------------

std::string margins_text(std::span<const int64_t> numbers) {
  std::vector<std::string> axes;
  for (size_t at = 0; at + 1 < numbers.size(); at += 2)
    axes.push_back(fmt::format("{}_{}", numbers[at], numbers[at + 1]));
  return fmt::format("{}", fmt::join(axes, "x"));
}

// The value of an attribute as XLA writes it.
std::string hlo_value(const AttributeValue& value) {
  switch (value.attribute->type) {
    case AttributeType::kSlices: return slices_text(value.numbers);
    case AttributeType::kMargins: return margins_text(value.numbers);
    case AttributeType::kWindows: return windows_text(value.numbers);
    default: return fmt::format("{}", fmt::join(value.numbers, ","));
  }
}

class HloWriter {
 public:
  HloWriter(const Program& program, const ShownTypes& types) : program_(program), types_(types) {}

  std::string run() {
    for (ValueId id = 0; id < program_.size(); ++id) write(id);
    const std::string tuple = root();
    return fmt::format(
        "HloModule SyncTensorsGraph.{0}{1}, entry_computation_layout={{({2})->({3})}}\n\n{4}"
        "ENTRY %SyncTensorsGraph.{0} ({5}) -> ({3}) {{\n{6}{7}}}\n",
        next_, aliases(), fmt::join(parameter_shapes_, ", "), fmt::join(result_shapes_, ", "), computations(),
        fmt::join(signature_, ", "), body_, tuple);
  }

 private:
  // Type on the device.
  TensorType type(ValueId id) const { return types_.of(program_, id); }
  std::string& name(ValueId id) { return names_[id]; }
  std::string typed(ValueId id) { return shape_text(type(id)) + " %" + name(id); }
  // Returns operand `operand` in the type that node `id` reads it in, with a convert if needed. A cast reads any type.
  std::string taken(ValueId id, ValueId operand) {
    const TensorType from = type(operand), to = types_.of(program_, operand, id);
    if (from == to || hlo_of(program_.node(id).op).form == HloForm::kConvert) return typed(operand);
    const std::string made = fresh("convert");
    line(made, to, fmt::format("convert({})", typed(operand)));
    return fmt::format("{} %{}", shape_text(to), made);
  }
  TensorType operand_type(ValueId id) const { return types_.of(program_, program_.operands(id)[0], id); }

  void line(const std::string& made, const TensorType& type, const std::string& text) {
    body_ += fmt::format("  %{} = {} {}\n", made, shape_text(type), text);
  }
  std::string fresh(std::string_view opcode) { return fmt::format("{}.{}", opcode, next_++); }

  static const Hlo& hlo_of(Op op) { return def_of(op).xla.hlo; }

  void write(ValueId id) {
    const Hlo& hlo = hlo_of(program_.node(id).op);
    switch (hlo.form) {
      case HloForm::kParameter: return parameter(id);
      case HloForm::kConstant: return constant(id);
      case HloForm::kMaximumWithZero: return maximum_with_zero(id);
      case HloForm::kBroadcast: return broadcast(id);
      case HloForm::kConvert:
        if (keeps_type(id)) return static_cast<void>(name(id) = name(program_.operands(id)[0]));
        break;
      case HloForm::kDot:
      case HloForm::kConvolution:
      case HloForm::kInstruction:
      case HloForm::kCustomCall: break;
    }
    const std::string_view opcode = hlo.opcode, further = hlo.scalar;
    std::vector<std::string> operands;
    for (const ValueId operand : program_.operands(id)) operands.push_back(taken(id, operand));
    if (!further.empty()) operands.push_back(scalar(further, type(id).dtype));
    name(id) = fresh(opcode);
    line(name(id), type(id), fmt::format("{}({}){}", opcode, fmt::join(operands, ", "), details(id)));
  }

  // A cast between two types that are the same on the device.
  bool keeps_type(ValueId id) const { return type(id) == type(program_.operands(id)[0]); }

  void parameter(ValueId id) {
    const size_t index = parameter_shapes_.size();
    name(id) = fresh(fmt::format("p{}", index));
    parameter_shapes_.push_back(shape_text(type(id)));
    signature_.push_back(fmt::format("{}: {}", name(id), hlo_text(type(id))));
    line(name(id), type(id),
         fmt::format("parameter({}), metadata={{op_type=\"xla__device_data\" op_name=\"{}\"}}", index,
                     program_.inputs()[index].name));
  }

  void constant(ValueId id) {
    name(id) = fresh("constant");
    line(name(id), type(id), fmt::format("constant({})", number_text(program_, id, types_)));
  }

  // Adds a constant that exists only in the lowering; returns it as an operand.
  std::string scalar(std::string_view number, DType dtype) {
    const std::string made = fresh("constant");
    line(made, {dtype, {}}, fmt::format("constant({})", number));
    return fmt::format("{} %{}", shape_text({dtype, {}}), made);
  }

  void maximum_with_zero(ValueId id) {
    const TensorType made = type(id);
    const std::string zero = scalar("0", made.dtype), zeros = fresh("broadcast");
    line(zeros, made, fmt::format("broadcast({}), dimensions={{}}", zero));
    name(id) = fresh("maximum");
    line(name(id), made,
         fmt::format("maximum({}, {} %{})", taken(id, program_.operands(id)[0]), shape_text(made), zeros));
  }

  // A broadcast of HLO stretches no axis: an axis of size 1 is dropped by a reshape, and added by the broadcast.
  void broadcast(ValueId id) {
    const TensorType from = operand_type(id), to = type(id);
    const int added = to.shape.rank() - from.shape.rank();
    std::vector<int> axes;
    std::vector<int64_t> sizes;
    for (int axis = 0; axis < from.shape.rank(); ++axis) {
      if (from.shape[axis] != to.shape[added + axis]) continue;
      axes.push_back(added + axis);
      sizes.push_back(from.shape[axis]);
    }
    std::string operand = taken(id, program_.operands(id)[0]);
    if (const TensorType kept{from.dtype, Shape(sizes)}; kept != from) operand = reshaped(operand, kept);
    name(id) = fresh("broadcast");
    line(name(id), to, fmt::format("broadcast({}), dimensions={{{}}}", operand, fmt::join(axes, ",")));
  }

  // Returns the result as an operand.
  std::string reshaped(const std::string& operand, const TensorType& type) {
    const std::string made = fresh("reshape");
    line(made, type, fmt::format("reshape({})", operand));
    return fmt::format("{} %{}", shape_text(type), made);
  }

  std::string details(ValueId id) {
    const OpDef& def = def_of(program_.node(id).op);
    const Hlo& hlo = def.xla.hlo;
    if (hlo.form == HloForm::kCustomCall)
      return fmt::format(", custom_call_target=\"{}\"", std::string_view(def.xla.aten));
    if (hlo.form == HloForm::kDot) return contraction(id);
    std::string text = hlo.form == HloForm::kConvolution ? axis_labels(id) : std::string(std::string_view(hlo.details));
    for (const AttributeValue& value : attributes_of(program_, id))
      if (const std::string_view shown = value.attribute->hlo; !shown.empty())
        text += ", " + fmt::format(fmt::runtime(shown), hlo_value(value));
    if (const std::string_view applies = hlo.applies; !applies.empty())
      text += fmt::format(", to_apply=%{}", computation(applies, type(id).dtype));
    return text;
  }

  // The names of the axes of a convolution: ", dim_labels=bf01_oi01->bf01".
  std::string axis_labels(ValueId id) const {
    const std::string_view spatial = std::string_view("01").substr(0, static_cast<size_t>(type(id).shape.rank() - 2));
    std::string text = ", dim_labels=";
    int letters = 0;  // since the last spatial axes
    for (const char letter : std::string_view(hlo_of(program_.node(id).op).details)) {
      text += letter;
      letters = letter >= 'a' ? letters + 1 : 0;
      if (letters == 2) text += spatial;
    }
    return text;
  }

  std::string contraction(ValueId id) const {
    const int rank = type(id).shape.rank();
    std::string text = fmt::format(", lhs_contracting_dims={{{}}}, rhs_contracting_dims={{{}}}", rank - 1, rank - 2);
    std::vector<int> batch;
    for (int each = 0; each < rank - 2; ++each) batch.push_back(each);
    if (!batch.empty()) text += fmt::format(", lhs_batch_dims={{{0}}}, rhs_batch_dims={{{0}}}", fmt::join(batch, ","));
    return text;
  }

  // The name of the computation of two numbers that a reduction applies.
  std::string computation(std::string_view opcode, DType dtype) {
    const std::string name = fmt::format("{}.{}", opcode, hlo_text({dtype, {}}));
    const std::string without_shape = name.substr(0, name.find('['));
    computations_.emplace(without_shape, std::pair(opcode, dtype));
    return without_shape;
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
      result_shapes_.push_back(shape_text(type(output.value)));
      results.push_back(typed(output.value));
    }
    return fmt::format("  ROOT %{} = ({}) tuple({})\n", fresh("tuple"), fmt::join(result_shapes_, ", "),
                       fmt::join(results, ", "));
  }

  std::string aliases() const {
    std::vector<std::string> pairs;
    for (size_t i = 0; i < program_.outputs().size(); ++i)
      if (const int32_t state = program_.outputs()[i].state; state >= 0)
        pairs.push_back(fmt::format("{{{}}}: ({}, {{}}, may-alias)", i, state));
    return pairs.empty() ? "" : fmt::format(", input_output_alias={{ {} }}", fmt::join(pairs, ", "));
  }

  const Program& program_;
  const ShownTypes& types_;
  int next_ = 1;
  std::string body_;
  std::map<ValueId, std::string> names_;
  std::vector<std::string> parameter_shapes_, result_shapes_, signature_;
  std::map<std::string, std::pair<std::string_view, DType>> computations_;
};

}  // namespace

std::string ir_text(const Program& tensor_graph, const ShownTypes& types) {
  std::string text = "IR {\n";
  for (ValueId id = 0; id < tensor_graph.size(); ++id) text += ir_line(tensor_graph, id, types);
  return text + "}\n";
}

std::string hlo_text(const Program& tensor_graph, const ShownTypes& types) {
  return HloWriter(tensor_graph, types).run();
}

}  // namespace runner::backends::tpu
