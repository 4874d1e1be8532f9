#include "backends/ir/print.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/ir/op_def.h"
#include "backends/ir/windows.h"

namespace runner::backends {
namespace {

constexpr std::string_view kKindNames[] = {"state", "batch", "scalar"};

// The shortest digits that tell the number from others of its dtype, f32 standing in for the 16-bit ones.
std::string constant_text(double value, DType dtype) {
  return dtype == DType::kF64 ? fmt::format("{}", value) : fmt::format("{}", static_cast<float>(value));
}

std::string leaf_text(const Program& program, ValueId id) {
  if (program.node(id).op == Op::kConstant) return constant_text(program.constant_value(id), program.type(id).dtype);
  const Input& input = *program.input_of(id);
  return fmt::format("{} '{}'", kKindNames[static_cast<size_t>(input.kind)], input.name);
}

// "eps 1e-05", "0, 1"; empty for a shape, which the node's type shows.
std::string attribute_text(const AttributeValue& value) {
  if (value.numbers.empty()) return "";
  const Attribute& attribute = *value.attribute;
  if (attribute.type == AttributeType::kWindows) return windows_text(value.numbers);
  std::string text = attribute.type == AttributeType::kF64 ? fmt::format("{}", unpack_f64(value.numbers[0]))
                                                           : fmt::format("{}", fmt::join(value.numbers, ", "));
  const std::string_view name = attribute.name;
  return attribute.printed == Printed::kNameAndValue ? fmt::format("{} {}", name, text) : text;
}

}  // namespace

std::string attributes_text(const Program& program, ValueId id) {
  if (kind_of(program.node(id).op) == OpKind::kLeaf) return leaf_text(program, id);
  std::vector<std::string> texts;
  for (const AttributeValue& value : attributes_of(program, id))
    if (std::string text = attribute_text(value); !text.empty()) texts.push_back(std::move(text));
  return texts.empty() ? "" : fmt::format("{{{}}}", fmt::join(texts, ", "));
}

std::string to_string(const Program& program, ValueId id) {
  std::string text = fmt::format("%{} = {}", id, name_of(program.node(id).op));
  for (const ValueId operand : program.operands(id)) text += fmt::format(" %{}", operand);
  if (const std::string attributes = attributes_text(program, id); !attributes.empty()) text += " " + attributes;
  return text + " : " + program.type(id).to_string();
}

std::string to_string(const Program& program) {
  std::string text;
  for (ValueId id = 0; id < program.size(); ++id) text += to_string(program, id) + "\n";
  for (const Output& output : program.outputs()) {
    if (output.state < 0) {
      text += fmt::format("return '{}' = %{}\n", output.name, output.value);
    } else {
      const Input& state = program.inputs()[static_cast<size_t>(output.state)];
      text += fmt::format("update '{}' = %{}\n", state.name, output.value);
    }
  }
  return text;
}

}  // namespace runner::backends
