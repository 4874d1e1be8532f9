#include <algorithm>
#include <unordered_map>

#include "backends/ir/passes/passes.h"
#include "backends/ir/passes/rewriter.h"

namespace runner::backends {
namespace {

size_t structure_hash(const Program& program, ValueId id) {
  const Node& node = program.node(id);
  size_t hash = static_cast<size_t>(node.op) * 0x9e3779b97f4a7c15ull + static_cast<size_t>(node.type.dtype);
  const auto add = [&hash](int64_t word) { hash = (hash ^ static_cast<size_t>(word)) * 0x100000001b3ull; };
  for (const int64_t dim : node.type.shape.dims()) add(dim);
  for (const ValueId operand : program.operands(id)) add(operand);
  for (const int64_t attr : program.attrs(id)) add(attr);
  return hash;
}

}  // namespace

// Copies each node, then looks for an equal earlier copy. Operands are merged by then, so equal nodes compare equal.
// The later copies become dead.
Program cse(const Program& program) {
  Rewriter rewriter(program);
  std::unordered_multimap<size_t, ValueId> seen;
  for (ValueId id = 0; id < program.size(); ++id) {
    const ValueId now = rewriter.copy(id);
    if (program.node(id).op == Op::kInput || is_collective(program.node(id).op)) continue;
    const size_t hash = structure_hash(rewriter.to(), now);
    const auto [first, last] = seen.equal_range(hash);
    const auto twin = std::find_if(
        first, last, [&](const auto& entry) { return same_node(rewriter.to(), entry.second, rewriter.to(), now); });
    if (twin != last) {
      rewriter.map(id, twin->second);
    } else {
      seen.emplace(hash, now);
    }
  }
  return rewriter.finish();
}

}  // namespace runner::backends
