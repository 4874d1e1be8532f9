// Tensors in host memory that replicas exchange by value, in a loop of a hook's.
//
// Elements lie as in an input of a Program: row by row, in the dtype.
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

  // Appends it as it travels.
  void pack_into(std::string& text) const;
};

// One that has travelled; what it was read from must outlive it.
struct SentTensor {
  backends::TensorType type;
  std::span<const std::byte> bytes;

  // Throws Error(kRun) for a text that pack_into() has not written.
  static SentTensor of_packed(std::string_view text);
  HostTensor copy() const { return {type, {bytes.begin(), bytes.end()}}; }
};

// Joined along the first axis; of scalars, a vector.  Throws Error(kRun) with the types of all where they differ in
// more than their first sizes; `what` begins the message.
HostTensor joined(const std::vector<SentTensor>& all, std::string_view what);

enum class Fold { kSum, kMean, kMax };
// Their left fold, each step rounded to the dtype; NaN is largest.  Throws Error(kRun) with the types of all where they
// differ, and for the mean of integers.
HostTensor folded(const std::vector<SentTensor>& all, Fold fold, std::string_view what);

}  // namespace runner::train
