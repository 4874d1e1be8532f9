// Python numbers in traced code, and how PyTorch passes them to an op. That decides whether a lazy device compiles them
// into the graph or takes them as inputs. Measured by tests/golden/xla/scalars.py.
#pragma once

#include <cstdint>
#include <string_view>

#include "backends/ir/program.h"

namespace runner::backends {

enum class ScalarUse : uint8_t {
  kOperand,    // x * s, x / s, x + s: converted to the dtype of the tensor before it is compared with 0, 1 and −1
  kFactor,     // add(x, alpha=s), s - x, lerp(x, s): compared as a double, then converted to the dtype of the tensor
  kValue,      // addcmul, addcdiv(x, y, value=s), x > s: a double, or an integer if written as one
  kAttribute,  // x ** s: part of the graph, whatever its value
};

struct TracedScalar {
  ScalarUse use;
  double value;
  std::string_view name = "a number";  // shown in messages about compilations
  DType tensor_dtype = DType::kF32;    // dtype of the tensor operand
  bool is_integer = false;             // written as 2 rather than 2.0
  bool is_from_hook = false;           // written in a hook, not set by the engine
  Origin origin = kNoOrigin;           // of the node that holds it; kNoOrigin: not in the Program
  // Optimizer and parameter group that it belongs to, from 1; 0 if there is only one.
  int32_t optimizer = 0, group = 0;
  int64_t batch = 0;  // number of the batch that uses it, if a graph has several
};

// The dtype in which it is uploaded: f32, f64 or i64.
DType dtype_of(const TracedScalar& scalar);
// Its value in that dtype.
double value_of(const TracedScalar& scalar);

// Whether it is 0, 1 or −1: PyTorch/XLA compiles these into the graph and takes other numbers as inputs.
bool is_special(const TracedScalar& scalar);

}  // namespace runner::backends
