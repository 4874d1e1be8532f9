#include "backends/tpu/range_check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "backends/tensor/float16.h"
#include "backends/tpu/numerics.h"
#include "backends/tpu/owners.h"

namespace runner::backends::tpu {
namespace {

std::optional<std::string> overflow(std::string_view what, double value, DType dtype, const DeviceTypes& types) {
  if (!is_float(dtype)) return std::nullopt;
  const double held = held_in(types.of(dtype), value);
  if (std::isinf(value) || !std::isinf(held)) return std::nullopt;
  return fmt::format("the {} {:g} becomes {} in the TPU's {}; use a mask of {:g}, which stays finite", what, value,
                     held, name_of(types.of(dtype)), std::copysign(1e30, value));
}

// Warns about a hook number other than 1, -1 and 0 that becomes one of these in bf16.
std::optional<std::string> collapse(const TracedScalar& number, const DeviceTypes& types) {
  if (!number.is_from_hook || number.is_integer || !is_float(number.tensor_dtype)) return std::nullopt;
  if (types.of(number.tensor_dtype) != DType::kBf16) return std::nullopt;
  const double held = held_on_device(DType::kBf16, number.value);
  if (held == number.value || (held != 0 && std::fabs(held) != 1)) return std::nullopt;
  const double least = std::numeric_limits<float>::min();
  const double next = held == 0 ? least : std::fabs(number.value) < 1 ? 1 - 0x1p-8 : 1 + 0x1p-7;
  return fmt::format("the number {:g} rounds to {} in the TPU's bf16; the nearest other bf16 number is {:.8g}",
                     number.value, held, std::copysign(next, number.value));
}

std::optional<std::string> overflow(const Program& graph, ValueId id, const DeviceTypes& types) {
  if (graph.node(id).op != Op::kConstant) return std::nullopt;
  return overflow("constant", graph.constant_value(id), graph.type(id).dtype, types);
}

std::string with_line(const std::string& text, const SourceMark& line) {
  return line.known() ? fmt::format("{}: {}", line.to_string(), text) : text;
}

// By node: whether it depends on more than constants. XLA computes the others when it compiles.
std::vector<bool> computed_on_device(const Program& graph) {
  std::vector<bool> computed;
  for (ValueId id = 0; id < graph.size(); ++id) {
    const auto operands = graph.operands(id);
    computed.push_back(operands.empty() ? graph.node(id).op != Op::kConstant
                                        : std::ranges::any_of(operands, [&](ValueId operand) -> bool {
                                            return computed[static_cast<size_t>(operand)];
                                          }));
  }
  return computed;
}

std::optional<std::string> slow_type(const Program& graph, ValueId id, Owner owner, const DeviceTypes& types) {
  if (owner != Owner::kUser || graph.type(id).dtype != DType::kF64 || types.f64 != DType::kF64) return std::nullopt;
  if (!graph.mark_of(id).known()) return std::nullopt;  // PowerSGD of the engine
  return "a TPU computes f64 in software, many times slower than f32; cast to f32, or use mixed_precision: bf16 with "
         "downcast_bf16: true, which converts it to f32";
}

}  // namespace

std::vector<std::string> range_warnings(const Program& graph, const DeviceTypes& types) {
  const std::vector<Owner> owners = owners_of(graph);
  const std::vector<bool> computed = computed_on_device(graph);
  std::vector<std::string> texts;
  bool warned_of_f64 = false;
  for (ValueId id = 0; id < graph.size(); ++id) {
    std::optional<std::string> text = overflow(graph, id, types);
    if (!text && !warned_of_f64 && computed[static_cast<size_t>(id)]) {
      text = slow_type(graph, id, owners[static_cast<size_t>(id)], types);
      warned_of_f64 = text.has_value();
    }
    if (!text) continue;
    std::string warning = with_line(*text, graph.mark_of(id));
    if (std::find(texts.begin(), texts.end(), warning) == texts.end()) texts.push_back(std::move(warning));
  }
  return texts;
}

std::vector<std::string> range_warnings_of_numbers(const GraphIdentity& graph, const DeviceTypes& types) {
  std::vector<std::string> texts;
  for (const TracedScalar& number : graph.scalars) {
    if (number.origin == kNoOrigin) continue;
    std::optional<std::string> text = overflow("number", number.value, number.tensor_dtype, types);
    if (!text) text = collapse(number, types);
    if (text) texts.push_back(with_line(*text, graph.program->lines().at(number.origin)));
  }
  return texts;
}

std::vector<GivenTensor> given_tensors(const Program& program) {
  std::vector<GivenTensor> tensors;
  size_t batch = 0;
  for (const Input& input : program.inputs()) {
    if (input.kind != InputKind::kBatch) continue;
    const TensorType& type = program.type(input.value);
    if (is_float(type.dtype) && program.mark_of(input.value).known())
      tensors.push_back({batch, type, program.node(input.value).origin});
    ++batch;
  }
  return tensors;
}

std::vector<std::string> range_warnings_of_given(std::span<const GivenTensor> tensors,
                                                 std::span<const std::byte* const> batch, const SourceLines& lines,
                                                 const DeviceTypes& types) {
  std::vector<std::string> texts;
  for (const auto& [index, type, origin] : tensors) {
    if (types.of(type.dtype) == type.dtype) continue;
    for (int64_t i = 0; i < type.shape.elements(); ++i) {
      const std::byte* const element = batch[index] + static_cast<size_t>(i) * size_of(type.dtype);
      const auto text = overflow("number", load_element(type.dtype, element), type.dtype, types);
      if (!text) continue;
      texts.push_back(with_line(*text, lines.at(origin)));
      break;
    }
  }
  return texts;
}

}  // namespace runner::backends::tpu
