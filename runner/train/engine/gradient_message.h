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
#include "runner/train/engine/gradients.h"
#include "runner/train/engine/shares.h"

namespace runner::train {

struct MessagePart {
  nn::ParameterId parameter;
  int64_t offset;   // in the message, in floats
  int64_t samples;  // rows of the factors, for the rank with the largest part of the batch; 0: the gradient itself
};

// One array of floats with a part for each trained parameter. Empty if factoring pays off for no weight; then gradients
// are summed from their arrays.
struct MessageLayout {
  std::vector<MessagePart> parts;  // in the order of the flat buffers
  int64_t elements = 0;

  backends::TensorType type() const { return {backends::DType::kF32, backends::Shape{elements}}; }
};

// Returns the layout for the derivative of a step on the largest part of a batch.
MessageLayout message_layout(const Derivative& derivative, const nn::ParameterSet& set);

// Returns the message of a rank, (layout.elements) f32. Factors of fewer samples are padded with zeros.
Value message_of(const Derivative& derivative, const MessageLayout& layout);

// Returns elements `range` of the summed gradients of a flat buffer, f32: the left fold over the messages of all ranks.
Value sum_of_messages(std::span<const Value> by_rank, const MessageLayout& layout, const nn::ParameterSet& set,
                      int32_t buffer, const Shares::Range& range);

}  // namespace runner::train
