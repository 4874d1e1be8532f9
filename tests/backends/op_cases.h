// Table of op cases: every function of ir/ops.h with several shapes and dtypes. It has three uses: fast kernels against
// reference kernels, derivatives against finite differences (op_cases_test.cpp), and speed (bench/ops_bench.cpp).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "backends/ir/ops.h"
#include "tests/backends/support/host_tensor.h"

namespace runner::backends::testing {

// Floats are spread evenly over [low, high), all different; integers are drawn from it.
struct OpInput {
  TensorType type;
  double low = -2, high = 2;
};

struct OpCase {
  std::string function;  // name in ir/ops.h
  std::vector<OpInput> inputs;
  std::function<Value(std::span<const Value> inputs)> record;

  // Example: "sum (3, 5) f32".
  std::string name() const;
};

enum class OpCaseSize {
  kSmall,  // up to a few thousand elements, all dtypes
  kLarge,  // about a million elements, f32
};
std::vector<OpCase> op_cases(OpCaseSize size);

// A case as a Program with its result as the only output, and tensors for its inputs.
struct RecordedCase {
  explicit RecordedCase(const OpCase& c);
  RecordedCase(const RecordedCase&) = delete;
  RecordedCase& operator=(const RecordedCase&) = delete;

  Program program;
  std::vector<Value> inputs;
  Value result;
  std::vector<HostTensor> tensors;
};

}  // namespace runner::backends::testing
