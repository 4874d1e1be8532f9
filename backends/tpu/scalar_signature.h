// Contribution of host scalars to the key of a graph.
//
// PyTorch/XLA bakes 0, 1, −1 and scalar attributes of ops into a graph. Any other scalar is a parameter, and equal
// scalars share one parameter. The key therefore contains which scalars are baked and which are equal, and no other
// value. The rules of 2.9 are measured (tests/golden/xla/scalars.py), those of 1.7 are taken from its sources.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/ir/traced_scalar.h"
#include "backends/tpu/dialect.h"
#include "backends/tpu/tiling.h"

namespace runner::backends::tpu {

// Two words per scalar.
using ScalarSignature = std::vector<int64_t>;

// Defaults: PyTorch/XLA 2.9. Operands are compared as f32; values stay doubles and are kept apart from operands.
struct ScalarRules {
  bool bakes = true;   // 0, 1, −1, and attributes
  bool shares = true;  // equal scalars share a parameter
  // Set for 1.7: a scalar is compared as written and uploaded in the device type of f32, whatever it is used for.
  std::optional<DType> one_type = {};
};

ScalarSignature signature_of(std::span<const TracedScalar> scalars, const ScalarRules& rules = {});

// Returns the parameter of a scalar, named by the first scalar that shares it, or nullopt if the scalar is baked.
std::optional<size_t> parameter_of(const ScalarSignature& signature, size_t scalar);

// Whether the scalar is a parameter of the graph, and its value on the device.
bool is_parameter(const TracedScalar& scalar, const ScalarRules& rules);
struct UploadedNumber {
  DType dtype;
  double value;
};
UploadedNumber as_uploaded(const TracedScalar& scalar, const ScalarRules& rules);

// Why the scalars of `now` require another graph than those of `before`: "-lr changed from -0.1 to 0; the numbers
// 0, 1 and -1 are constants of the graph", and which scalar it is. Empty if they do not.
struct Difference {
  std::string text;
  size_t scalar = 0;
  bool is_attribute = false;
};
Difference difference(std::span<const TracedScalar> before, std::span<const TracedScalar> now,
                      const ScalarRules& rules = {});

inline ScalarRules scalar_rules(const Dialect& dialect, const DeviceTypes& types) {
  return {.bakes = dialect.bakes_scalars,
          .shares = dialect.shares_scalars,
          .one_type = dialect.scalars_have_one_type ? std::optional(types.f32) : std::nullopt};
}

}  // namespace runner::backends::tpu
