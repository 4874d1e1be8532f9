// The op matrix: every function of ir/ops.h on several shapes and dtypes, as one table for three uses: fast kernels
// against reference kernels, derivatives against finite differences (op_cases_test.cpp), speed (bench/ops_bench.cpp).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "backends/ir/ops.h"
#include "tests/backends/support/host_tensor.h"

namespace runner::backends::testing {

// Floats are spread evenly over [low, high), no two alike; integers are drawn from it.
struct OpInput {
  TensorType type;
  double low = -2, high = 2;
};

struct OpCase {
  std::string function;  // its name in ir/ops.h
  std::vector<OpInput> inputs;
  std::function<Value(std::span<const Value> inputs)> record;

  // "sum (3, 5) f32".
  std::string name() const;
};

enum class OpCaseSize {
  kSmall,  // a few elements to a few thousand, all dtypes
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
