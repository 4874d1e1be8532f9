#include <set>

#include <fmt/format.h>

#include "backends/ir/op_def.h"
#include "backends/ir/passes/passes.h"
#include "backends/ir/print.h"
#include "schema/base/error.h"

namespace runner::backends {
namespace {

std::string verify_node(const Program& program, ValueId id) {
  for (const ValueId operand : program.operands(id))
    if (operand < 0 || operand >= id) return fmt::format("operand %{} is not computed before", operand);
  const Node& node = program.node(id);
  try {
    const TensorType type = result_type(node.op, operand_types(program, id), program.attrs(id), node.type);
    if (type != node.type) return fmt::format("the type rule gives {}", type.to_string());
  } catch (const Error& error) {
    return error.message();
  }
  if (node.op != Op::kInput) return "";
  const auto index = static_cast<size_t>(program.attrs(id)[1]);
  const bool listed = index < program.inputs().size() && program.inputs()[index].value == id &&
                      program.inputs()[index].kind == static_cast<InputKind>(program.attrs(id)[0]);
  return listed ? "" : "the input list does not name this node";
}

}  // namespace

std::string verify(const Program& program) {
  for (ValueId id = 0; id < program.size(); ++id) {
    const std::string fault = verify_node(program, id);
    if (!fault.empty()) return fmt::format("{}: {}", to_string(program, id), fault);
  }
  std::set<int32_t> updated;
  for (const Output& output : program.outputs()) {
    if (output.value < 0 || output.value >= program.size()) return fmt::format("output '{}' has no value", output.name);
    if (output.state >= 0 && !updated.insert(output.state).second)
      return fmt::format("state '{}' is updated twice", program.inputs()[static_cast<size_t>(output.state)].name);
  }
  return "";
}

}  // namespace runner::backends
