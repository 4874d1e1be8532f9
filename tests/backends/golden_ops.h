// The cases of tests/golden/ops.json as Programs.
#pragma once

#include <map>
#include <string>

#include "backends/ir/ops.h"
#include "tests/backends/support/host_tensor.h"
#include "tests/golden/golden.h"

namespace runner::backends::testing {

struct GoldenOp {
  Program program;  // output 0 is the result of the op, followed by the gradients by name
  std::vector<HostTensor> inputs;
  std::vector<std::pair<std::string, HostTensor>> expected;  // by output
};

HostTensor to_host(const runner::testing::GoldenTensor& tensor);

// Throws std::runtime_error if the function of the case is not in the table of golden_ops.cpp.
GoldenOp record_golden(const runner::testing::Golden& item);

}  // namespace runner::backends::testing
