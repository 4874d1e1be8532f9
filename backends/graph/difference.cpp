#include "backends/graph/difference.h"

#include <algorithm>

namespace runner::backends {
namespace {

bool same_node(const Program& a, const Program& b, ValueId id) {
  const Node &x = a.node(id), &y = b.node(id);
  return x.op == y.op && x.type == y.type && std::ranges::equal(a.operands(id), b.operands(id)) &&
         std::ranges::equal(a.attrs(id), b.attrs(id));
}

}  // namespace

ValueId first_difference(const Program& a, const Program& b) {
  const ValueId end = std::min(a.size(), b.size());
  ValueId id = 0;
  while (id < end && same_node(a, b, id)) ++id;
  return id;
}

}  // namespace runner::backends
