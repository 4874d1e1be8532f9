// Tensors in host memory that replicas exchange by value, in a loop of a hook's.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backends/tensor/shape.h"

namespace runner::train {

struct HostTensor {
  backends::TensorType type;
  std::vector<double> values;  // row by row; what an element of the dtype holds

  // As an input of a Program takes it.
  std::vector<std::byte> bytes() const;
  // As it travels.  of_packed() throws Error(kRun) for anything else.
  std::string packed() const;
  static HostTensor of_packed(std::string_view text);
};

// Joined along the first axis; of scalars, a vector.  Throws Error(kRun) with the types of all where they differ in
// more than their first sizes; `what` begins the message.
HostTensor joined(const std::vector<HostTensor>& all, std::string_view what);

enum class Fold { kSum, kMean, kMax };
// Their left fold, each step rounded to the dtype; NaN is largest.  Throws Error(kRun) with the types of all where they
// differ, and for the mean of integers.
HostTensor folded(const std::vector<HostTensor>& all, Fold fold, std::string_view what);

}  // namespace runner::train
