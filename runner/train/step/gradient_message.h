// What replicas hand each other of their gradients where they meet behind each batch: of a large weight two factors.
//
// The gradient of a weight (M, N) over K samples is the product Aᵀ B of A (K, M) and B (K, N).  With few samples for a
// replica K (M + N) numbers say as much as M N, and each replica computes what it needs of all products for the share
// that it updates: nobody writes a gradient that others read once.  A sum is the same left fold over ranks, to the bit:
// a product with a few samples is added up in registers, and then to what is there.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runner/nn/parameter_set.h"
#include "runner/train/step/gradients.h"
#include "runner/train/step/shares.h"

namespace runner::train {

struct MessagePart {
  nn::ParameterId parameter;
  int64_t offset;   // in the message, in floats
  int64_t samples;  // of the factors of a replica with the largest share; 0: the gradient itself
};

// One array of floats, with a part for each parameter that is trained; empty: no weight is worth it, and gradients are
// added up from the arrays that they lie in.
struct MessageLayout {
  std::vector<MessagePart> parts;  // in the order of the buffers
  int64_t elements = 0;
};

// Of the derivative of a step with the largest share.
MessageLayout message_layout(const Derivative& derivative, const nn::ParameterSet& set);

// (layout.elements) f32: what a replica with that share or less has to say, padded with zeros.
Value message_of(const Derivative& derivative, const MessageLayout& layout);

// Of all gradients of a flat buffer, this range, f32: the left fold over the messages of all ranks.
Value sum_of_messages(std::span<const Value> by_rank, const MessageLayout& layout, const nn::ParameterSet& set,
                      int32_t buffer, const Shares::Range& range);

}  // namespace runner::train
