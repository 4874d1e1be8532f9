// A number that the user's code hands to the device as it is traced, and how PyTorch would take it: which decides what
// a lazy device compiles.  Measured by tests/golden/xla/scalars.py.
#pragma once

#include <cstdint>
#include <string_view>

#include "backends/ir/program.h"

namespace runner::backends {

enum class ScalarUse : uint8_t {
  kOperand,    // x * s, x / s, x + s: a tensor of the other's dtype, and looked at as that
  kFactor,     // add(x, alpha=s), s - x, lerp(x, s): looked at as a double, and then a tensor of the other's dtype
  kValue,      // addcmul, addcdiv(x, y, value=s), x > s: a double, or an integer where it is one
  kAttribute,  // x ** s: a part of the graph, whatever its value
};

// The name of one that a hook writes.
inline constexpr std::string_view kHookNumber = "a number of the hook's";

struct TracedScalar {
  ScalarUse use;
  double value;
  std::string_view name = "a number";  // for who is told why something is compiled
  DType beside = DType::kF32;          // of the other tensor
  bool is_integer = false;             // as the code has written it: 2, not 2.0
  Origin origin = kNoOrigin;           // of the node that holds it; none: it is in no Program
  // Whose it is, where several have one of the name, from 1; 0: of the only one.
  int32_t optimizer = 0, group = 0;
  int64_t batch = 0;  // of those of a graph
};

// As what it is uploaded: f32, f64 or i64.
DType dtype_of(const TracedScalar& scalar);
// The value that it has there.
double value_of(const TracedScalar& scalar);

// 0, 1 and −1 are parts of a graph, any other number but an attribute is an input of it.
bool is_special(const TracedScalar& scalar);

}  // namespace runner::backends
