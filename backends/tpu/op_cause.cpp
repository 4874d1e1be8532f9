#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "backends/ir/op_def.h"
#include "backends/ir/print.h"
#include "backends/ir/type_text.h"
#include "backends/tpu/miss_cause.h"

namespace runner::backends::tpu {
namespace {

constexpr size_t kComparedOps = 64;  // graphs of the same op to compare with

ValueId last(const Program& op) {
  return op.size() - 1;
}

std::vector<TensorType> types_taken(const Program& op) {
  return operand_types(op, last(op));
}

bool is_of_kind(const Program& op, const Program& other) {
  return op.node(last(op)).op == other.node(last(other)).op;
}

bool has_same_types(const Program& op, const Program& other) {
  return types_taken(op) == types_taken(other) && op.type(last(op)) == other.type(last(other));
}

// Describes an operand or result that has another type than before; empty if all types are equal.
std::string type_cause(std::string_view name, const Program& before, const Program& now) {
  const std::vector<TensorType> were = types_taken(before), are = types_taken(now);
  if (were.size() != are.size())
    return fmt::format("the number of operands of {0} changed from {2} to {1}", name, are.size(), were.size());
  for (size_t i = 0; i < are.size(); ++i)
    if (were[i] != are[i]) return fmt::format("an operand of {0} changed from {2} to {1}", name, are[i], were[i]);
  const TensorType &gave = before.type(last(before)), &gives = now.type(last(now));
  return gives == gave ? "" : fmt::format("the result of {0} changed from {2} to {1}", name, gives, gave);
}

// Describes an operand: a constant, a scalar input, a tensor, or one of these expanded.
std::string operand_text(const Program& op, ValueId id) {
  const bool is_expanded = op.node(id).op == Op::kExpand;
  const ValueId from = is_expanded ? op.operands(id)[0] : id;
  if (op.node(from).op == Op::kConstant) return fmt::format("the number {:.6g}", op.constant_value(from));
  const Input* const input = op.input_of(from);
  if (input != nullptr && input->kind == InputKind::kScalar) return input->name;
  return is_expanded ? fmt::format("a broadcast tensor {}", op.type(from)) : "a tensor";
}

// Counts the distinct tensors, since an operation may read one twice.
std::string inputs_text(const Program& op) {
  return op.inputs().size() == 1 ? "1 tensor" : fmt::format("{} tensors", op.inputs().size());
}

std::string operand_cause(std::string_view name, const Program& before, const Program& now) {
  const auto were = before.operands(last(before)), are = now.operands(last(now));
  for (size_t i = 0; i < are.size(); ++i) {
    const std::string was = operand_text(before, were[i]), is = operand_text(now, are[i]);
    if (is != was) return fmt::format("an operand of {0} changed from {2} to {1}", name, is, was);
  }
  const std::string was = attributes_text(before, last(before)), is = attributes_text(now, last(now));
  if (is != was) return fmt::format("the attributes of {0} changed from {2} to {1}", name, is, was);
  return fmt::format("the inputs of {0} changed from {2} to {1}", name, inputs_text(now), inputs_text(before));
}

}  // namespace

MissCause cause_of_op(const GraphIdentity& identity, const BakedText& number, const std::deque<Graph>& compiled) {
  const Program& op = *identity.program;
  const std::string_view name = aten_name(op, last(op));
  const SourceMark& line = op.mark_of(last(op));
  const GraphIdentity* nearest = nullptr;
  size_t compared = 0;
  for (auto graph = compiled.rbegin(); graph != compiled.rend() && compared < kComparedOps; ++graph) {
    if (graph->identity.program == nullptr) continue;  // evicted from the cache
    const Program& other = *graph->identity.program;
    if (!is_of_kind(op, other)) continue;
    ++compared;
    if (nearest == nullptr) nearest = &graph->identity;
    if (!has_same_types(op, other)) continue;
    nearest = &graph->identity;
    break;
  }
  if (nearest == nullptr) return {fmt::format("the first {}", name), line, MissKind::kFirst};
  const Program& before = *nearest->program;
  if (std::string types = type_cause(name, before, op); !types.empty()) return {std::move(types), line};
  if (before.same_structure(op))
    return {fmt::format("other operands or results of {} are the engine's own, which keep their types", name), line};
  if (!number.text.empty())
    return {fmt::format("{}: {}", name, number.text), line,
            number.is_attribute ? MissKind::kAttribute : MissKind::kNumber};
  return {operand_cause(name, before, op), line};
}

}  // namespace runner::backends::tpu
