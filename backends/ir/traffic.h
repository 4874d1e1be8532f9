// What a kernel that computes one node reads and writes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backends/ir/program.h"

namespace runner::backends {

// Bytes, where bytes_of(id) are those of a value in memory: each operand once and the result, but slices, gathers and
// scatters touch what they take only, random numbers no operand worth counting, views nothing.  As XLA's
// HloCostAnalysis counts.
template <class BytesOf>
int64_t touched_bytes(const Program& program, ValueId id, const BytesOf& bytes_of) {
  const std::span<const ValueId> operands = program.operands(id);
  switch (program.node(id).op) {
    case Op::kInput:
    case Op::kReshape:
    case Op::kDetach: return 0;
    case Op::kSlice: return 2 * bytes_of(id);
    case Op::kGather:
    case Op::kEmbedding: return 2 * bytes_of(id) + bytes_of(operands[1]);
    case Op::kScatterAdd: return 3 * bytes_of(operands[2]) + bytes_of(operands[1]);
    case Op::kEmbeddingGrad: return 3 * bytes_of(operands[1]) + bytes_of(operands[0]) + bytes_of(id);  // zeros first
    case Op::kDropoutMask:
    case Op::kRandomUniform:
    case Op::kRandomNormal: return bytes_of(id);
    default: break;
  }
  int64_t sum = bytes_of(id);
  for (auto at = operands.begin(); at != operands.end(); ++at)
    if (std::find(operands.begin(), at, *at) == at) sum += bytes_of(*at);
  return sum;
}

}  // namespace runner::backends
