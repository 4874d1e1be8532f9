// Rules by which the key of a graph is computed.
#pragma once

#include <cstdint>

#include "backends/tpu/scalar_signature.h"
#include "backends/tpu/tiling.h"

namespace runner::backends::tpu {

enum class Dialect : uint8_t {
  kXla2,   // PyTorch/XLA 2, measured with 2.9
  kXla17,  // PyTorch/XLA 1.7
  kClean,  // scalars are never baked, and optimizer slots are inputs from the first step on
};

inline ScalarRules scalar_rules(Dialect dialect, const DeviceTypes& types) {
  if (dialect == Dialect::kClean) return {.bakes = false, .shares = false};
  return dialect == Dialect::kXla17 ? ScalarRules{.one_type = types.f32} : ScalarRules{};
}

}  // namespace runner::backends::tpu
