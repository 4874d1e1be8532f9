
#include <algorithm>

#include <fmt/format.h>

#include "backends/ir/print.h"
#include "backends/ir/type_text.h"

namespace runner::backends {

ValueId first_difference(const Program& a, const Program& b) {
  const ValueId end = std::min(a.size(), b.size());
  ValueId id = 0;
  while (id < end && same_node(a, id, b, id)) ++id;
  return id;
}

std::string node_text(const Program& program, ValueId id) {
  if (const Input* const input = program.input_of(id))
    return fmt::format("the input \"{}\" {}", input->name, program.type(id));
  return fmt::format("{} {}", name_of(program.node(id).op), program.type(id));
}

std::string node_difference(const Program& before, const Program& now, ValueId id) {
  const Input *was = before.input_of(id), *is = now.input_of(id);
  if (was != nullptr && is != nullptr && was->name == is->name)
    return fmt::format("{0} changed from {2} to {1}", is->name, now.type(id), before.type(id));
  if (before.node(id).op == now.node(id).op && before.type(id) == now.type(id))
    return fmt::format("{0} has other operands or attributes: \"{2}\" before, \"{1}\" now", name_of(now.node(id).op),
                       to_string(now, id), to_string(before, id));
  return fmt::format("the first node that differs: {1} before, {0} now", node_text(now, id), node_text(before, id));
}

std::string difference_text(const Program& before, const Program& now) {
  const ValueId id = first_difference(before, now);
  if (id < std::min(before.size(), now.size())) return node_difference(before, now, id);
  if (id < now.size()) return fmt::format("it continues with {}", node_text(now, id));
  if (id < before.size()) return fmt::format("it ends before {}", node_text(before, id));
  return "its outputs differ";
}

}  // namespace runner::backends
