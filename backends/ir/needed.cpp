#include "backends/ir/needed.h"

#include <algorithm>
#include <iterator>
#include <set>

namespace runner::backends {

void mark_operands(const Program& program, std::vector<char>& marked) {
  for (ValueId id = program.size(); id-- > 0;)
    if (marked[static_cast<size_t>(id)])
      for (const ValueId operand : program.operands(id)) marked[static_cast<size_t>(operand)] = 1;
}

std::vector<char> needed_by(const Program& program, std::span<const ValueId> roots) {
  std::vector<char> needed(static_cast<size_t>(program.size()), 0);
  for (const ValueId root : roots) needed[static_cast<size_t>(root)] = 1;
  mark_operands(program, needed);
  return needed;
}

std::vector<char> needed_by_outputs(const Program& program) {
  std::vector<ValueId> roots;
  for (const Output& output : program.outputs()) roots.push_back(output.value);
  return needed_by(program, roots);
}

std::vector<int32_t> states_read(const Program& program) {
  const std::vector<char> needed = needed_by_outputs(program);
  std::vector<int32_t> states;
  int32_t state = 0;
  for (const Input& input : program.inputs()) {
    if (input.kind != InputKind::kState) continue;
    if (needed[static_cast<size_t>(input.value)]) states.push_back(state);
    ++state;
  }
  return states;
}

std::vector<TracedScalar> scalars_in(const Program& program, const std::vector<char>& marked,
                                     std::span<const TracedScalar> scalars) {
  std::set<Origin> origins;
  for (ValueId id = 0; id < program.size(); ++id)
    if (marked[static_cast<size_t>(id)]) origins.insert(program.node(id).origin);
  std::vector<TracedScalar> found;
  std::ranges::copy_if(scalars, std::back_inserter(found),
                       [&](const TracedScalar& scalar) { return origins.contains(scalar.origin); });
  return found;
}

}  // namespace runner::backends
