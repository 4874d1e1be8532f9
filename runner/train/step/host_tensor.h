// Tensors in host memory that ranks exchange by value in a hook's training loop.
//
// Elements are stored like an input of a Program: row-major, in the dtype.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/tensor/shape.h"

namespace runner::train {

struct HostTensor {
  backends::TensorType type;
  std::vector<std::byte> bytes;

  // Appends the serialised tensor.
  void pack_into(std::string& text) const;
};

// A received tensor. The text it was read from must outlive it.
struct SentTensor {
  backends::TensorType type;
  std::span<const std::byte> bytes;

  // Throws Error(kRun) if `text` was not written by pack_into().
  static SentTensor of_packed(std::string_view text);
  HostTensor copy() const { return {type, {bytes.begin(), bytes.end()}}; }
};

// Concatenates tensors along the first axis; scalars become a vector. Throws Error(kRun) with the types of all tensors
// if they differ in more than their first size. `what`: beginning of the message.
HostTensor joined(const std::vector<SentTensor>& all, std::string_view what);

enum class Fold { kSum, kMean, kMax };
// Computes the left fold, rounding each step to the dtype; NaN counts as largest. Throws Error(kRun) with the types of
// all tensors if they differ, or for the mean of integers.
HostTensor folded(const std::vector<SentTensor>& all, Fold fold, std::string_view what);

}  // namespace runner::train
