// What the numbers of the host contribute to the key of a graph.
//
// PyTorch/XLA bakes 0, 1 and −1 into a graph, and attributes of ops; any other number is a parameter of it, and numbers
// of equal value are one parameter.  So the key holds which numbers are baked and which are equal, and no other value.
// The rules of 2.9 are measured (tests/golden/xla/scalars.py), those of 1.7 are what its sources say.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/ir/traced_scalar.h"

namespace runner::backends::tpu {

// Two words for each scalar.
using ScalarSignature = std::vector<int64_t>;

// Of PyTorch/XLA 2.9: operands are f32 when they are looked at, values stay doubles and are apart from the others.
struct ScalarRules {
  bool bakes = true;   // 0, 1 and −1, and attributes
  bool shares = true;  // a parameter among equal numbers
  // Of 1.7: a number is looked at as it was written, and uploaded in the type that the device has for f32, whatever it
  // is for.
  std::optional<DType> one_type = {};
};

ScalarSignature signature_of(std::span<const TracedScalar> scalars, const ScalarRules& rules = {});

// The parameter that a scalar is, named by the first scalar that shares it; none: it is part of the graph.
std::optional<size_t> parameter_of(const ScalarSignature& signature, size_t scalar);

// A number that is a parameter, as the device has it.
bool is_parameter(const TracedScalar& scalar, const ScalarRules& rules);
struct UploadedNumber {
  DType dtype;
  double value;
};
UploadedNumber as_uploaded(const TracedScalar& scalar, const ScalarRules& rules);

// Why the numbers of `now` make another graph than those of `before`: "-lr was -0.1 and is 0 now, which is part of the
// graph (0, 1 and -1 are)", and which of them does.  Empty where they do not.
struct Difference {
  std::string text;
  size_t scalar = 0;
  bool is_attribute = false;
};
Difference difference(std::span<const TracedScalar> before, std::span<const TracedScalar> now,
                      const ScalarRules& rules = {});

}  // namespace runner::backends::tpu
