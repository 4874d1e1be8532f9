// Gradient compression for comm.hook: power_sgd and batched_power_sgd: what remains of a gradient that is communicated
// as two thin matrices, as in the torch.distributed hooks of the same names (arXiv 1905.13727).
//
//   P ← orthogonal(M Q),  Q ← Mᵀ P,  M̂ = P Qᵀ,  and the error M − M̂ is added to the next M.
//
// All of this is linear in M until P and Q are summed over ranks. So it is computed once, on the sum of the ranks'
// gradients. The results are the same, and the errors do not depend on the number of ranks. Rationale:
// docs/decisions/036-power-sgd.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runner/train/step/array_values.h"
#include "runner/train/step/step_builder.h"
#include "schema/recipe/recipe.h"

namespace runner::train {

// A part of a flat buffer that is compressed as a matrix, and the offset of its Q in the buffer's array of Qs.
struct LowRankMatrix {
  std::string name = {};             // of the parameter
  int64_t offset = 0, elements = 0;  // in the buffer; the matrix is padded with zeros
  int64_t rows = 0, columns = 0, rank = 0;
  int64_t q_offset = 0;
};

bool is_power_sgd(const schema::CommSpec& comm);

// Returns the matrices of a buffer. power_sgd has one for each parameter that it shrinks by min_compression_rate;
// batched_power_sgd has one square matrix of all elements.
std::vector<LowRankMatrix> low_rank_matrices(const schema::CommSpec& comm, const nn::ParameterSet& parameters,
                                             int32_t buffer);

// Returns the compressed sum of a buffer's gradients, (elements) f32. `sum`: of gradients that have been rounded for
// communication. Updates errors and Qs. If the sum is not finite, returns it unchanged and keeps errors and Qs.
Value compressed(ArrayValues& arrays, const StepBuilder& builder, int32_t buffer, Value sum);

}  // namespace runner::train
