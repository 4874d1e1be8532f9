// comm.hook: power_sgd and batched_power_sgd: what replicas are left with of a gradient that travels as two thin
// matrices, by torch.distributed's hooks of these names (arXiv 1905.13727).
//
//   P ← orthogonal(M Q),  Q ← Mᵀ P,  M̂ = P Qᵀ,  and what M̂ lacks of M is added to the next M.
//
// All of that is linear in M before P and Q are summed over the replicas, so it is done once, on the sum of their
// gradients: the same numbers, and errors that do not depend on how many replicas there are.
// docs/decisions/036-power-sgd.md says why.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runner/train/step/step_completion.h"
#include "schema/recipe.h"

namespace runner::train {

// A part of a flat buffer that is compressed, as a matrix, and where its Q lies in the array of those of the buffer.
struct LowRankMatrix {
  std::string name = {};             // of the parameter
  int64_t offset = 0, elements = 0;  // in the buffer; behind them the matrix has zeros
  int64_t rows = 0, columns = 0, rank = 0;
  int64_t q_offset = 0;
};

bool is_power_sgd(const schema::CommSpec& comm);

// Those of a buffer: power_sgd has one for each parameter that gets smaller by min_compression_rate, batched_power_sgd
// a square one of all its elements.
std::vector<LowRankMatrix> low_rank_matrices(const schema::CommSpec& comm, const nn::ParameterSet& parameters,
                                             int32_t buffer);

// What is left of the sum of a buffer's gradients, (elements) f32, each rounded on its way already.  Errors and Qs go
// on, unless the sum is not finite: then it is left as it is.
Value compressed(ArrayValues& arrays, const StepBuilder& builder, int32_t buffer, Value sum);

}  // namespace runner::train
