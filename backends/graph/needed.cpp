#include "backends/graph/needed.h"

#include <algorithm>
#include <iterator>
#include <set>

namespace runner::backends {

void mark_operands(const Program& program, std::vector<char>& marked) {
  for (ValueId id = program.size(); id-- > 0;)
    if (marked[static_cast<size_t>(id)])
      for (const ValueId operand : program.operands(id)) marked[static_cast<size_t>(operand)] = 1;
}

std::vector<char> needed_by_outputs(const Program& program) {
  std::vector<char> needed(static_cast<size_t>(program.size()), 0);
  for (const Output& output : program.outputs()) needed[static_cast<size_t>(output.value)] = 1;
  mark_operands(program, needed);
  return needed;
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
