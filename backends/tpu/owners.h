// Classifies nodes of a Program as user computation, which runs on the device, or engine bookkeeping.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/ir/program.h"

namespace runner::backends::tpu {

// Owner of the floats that an op reads or, if it reads none, produces. Values computed only from constants and integers
// belong to the engine if these depend on its values or bookkeeping reads them, else to the user.
enum class Owner : uint8_t {
  kNone,    // no floats, a constant, or computed only from these and read by bookkeeping
  kEngine,  // f64 states, values marked by ops::on_host(), and values computed only from these
  kUser,
};

// Whether a state of this type is bookkeeping. The engine keeps its sums and counters in f64, and none of the user's
// tensors (runner/train/step/device_layout.h).
inline bool is_bookkeeping_state(const TensorType& type) {
  return type.dtype == DType::kF64;
}

// By node.
std::vector<Owner> owners_of(const Program& program);

// By node: whether it is bookkeeping, which keeps its logical type. Includes inputs that only on_host() marks read, and
// kNone values that bookkeeping reads.
std::vector<bool> bookkeeping_nodes(const Program& program);

// Whether the node was recorded by ops::on_host().
bool marks_host(const Program& program, ValueId id);

}  // namespace runner::backends::tpu
