#include "backends/ir/print.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace runner::backends {
namespace {

constexpr std::string_view kKindNames[] = {"state", "batch", "scalar"};

// The shortest digits that tell the number from others of its dtype, f32 standing in for the 16-bit ones.
std::string constant(double value, DType dtype) {
  return dtype == DType::kF64 ? fmt::format("{}", value) : fmt::format("{}", static_cast<float>(value));
}

}  // namespace

std::string attributes_text(const Program& program, ValueId id) {
  const std::span<const int64_t> attrs = program.attrs(id);
  switch (program.node(id).op) {
    case Op::kInput: {
      const Input& input = program.inputs()[static_cast<size_t>(attrs[1])];
      return fmt::format("{} '{}'", kKindNames[attrs[0]], input.name);
    }
    case Op::kConstant: return constant(unpack_f64(attrs[0]), program.type(id).dtype);
    case Op::kLayerNorm:
    case Op::kLayerNormGradX:
    case Op::kLayerNormGradGamma: return fmt::format("{{eps {}}}", unpack_f64(attrs[0]));
    case Op::kDropoutMask: return fmt::format("{{layer {}, p {}}}", attrs[0], unpack_f64(attrs[1]));
    case Op::kRandomUniform:
    case Op::kRandomNormal: return fmt::format("{{stream {}}}", attrs[0]);
    case Op::kCrossEntropy:
    case Op::kCrossEntropyGrad:
      return fmt::format("{{ignore_index {}, label_smoothing {}}}", attrs[0], unpack_f64(attrs[1]));
    default: return attrs.empty() ? "" : fmt::format("{{{}}}", fmt::join(attrs, ", "));
  }
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
