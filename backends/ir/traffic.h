// The bytes that a kernel reads and writes to compute one node.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backends/ir/op_def.h"
#include "backends/ir/program.h"

namespace runner::backends {

// Returns the bytes by the Traffic of the op. `bytes_of(id)` returns the bytes of a value in memory.
template <class BytesOf>
int64_t touched_bytes(const Program& program, ValueId id, const BytesOf& bytes_of) {
  const std::span<const ValueId> operands = program.operands(id);
  const Traffic& traffic = def_of(program.node(id).op).cost.traffic;
  int64_t sum = traffic.result > 0 ? traffic.result * bytes_of(id) : 0;
  if (traffic.is_each_once) {
    for (auto at = operands.begin(); at != operands.end(); ++at)
      if (std::find(operands.begin(), at, *at) == at) sum += bytes_of(*at);
    return sum;
  }
  for (size_t i = 0; i < traffic.operands.size(); ++i)
    if (traffic.operands[i] > 0) sum += traffic.operands[i] * bytes_of(operands[i]);
  return sum;
}

}  // namespace runner::backends
