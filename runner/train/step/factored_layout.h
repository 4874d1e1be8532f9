// Factored gradients: ranks that all-reduce after each batch exchange a large gradient as two factors.
//
// The gradient of a weight (M, N) over K samples is the product Aᵀ B of A (K, M) and B (K, N). If each rank has few
// samples, the K (M + N) elements of the factors are fewer than M N. Each rank computes the products only for the shard
// that it updates, so no full gradient is written to memory to be read once. A sum is the same left fold over ranks, to
// the bit: a product over few samples is accumulated in registers and then added to the sum so far.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runner/model/parameter_set.h"
#include "runner/train/step/gradients.h"
#include "runner/train/step/shard.h"

namespace runner::train {

struct FactoredPart {
  nn::ParameterId parameter;
  int64_t offset;   // in the array, in floats
  int64_t samples;  // rows of the factors, for the rank with the largest part of the batch; 0: the gradient itself
};

// One array of floats with a part for each trained parameter. Empty if factoring pays off for no weight; then gradients
// are summed from their arrays.
struct FactoredLayout {
  std::vector<FactoredPart> parts;  // in the order of the flat buffers
  int64_t elements = 0;

  backends::TensorType type() const { return {backends::DType::kF32, backends::Shape{elements}}; }
};

// Returns the layout for the derivative of a step on the largest part of a batch.
FactoredLayout factored_layout(const Derivative& derivative, const nn::ParameterSet& set);

// Returns the factored gradients of a rank, (layout.elements) f32. Factors of fewer samples are padded with zeros.
Value factored_gradients(const Derivative& derivative, const FactoredLayout& layout);

// Returns elements `range` of the summed gradients of a flat buffer, f32: the left fold over ranks. `by_rank`: their
// factored gradients.
Value sum_of_factored(std::span<const Value> by_rank, const FactoredLayout& layout, const nn::ParameterSet& set,
                      int32_t buffer, const Shard::Range& range);

}  // namespace runner::train
