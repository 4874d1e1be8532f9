// Explains why an operation that runs alone had to be compiled: how it differs from the newest of its kind.
#pragma once

#include <deque>
#include <string>

#include "backends/tpu/miss_cause.h"

namespace runner::backends::tpu {

// Describes a scalar that is part of an operation: "lr 0 is 0; the numbers 0, 1 and -1 are constants of
// the graph". Empty if there is none.
struct BakedText {
  std::string text = {};
  bool is_attribute = false;  // is part of it whatever its value
};

MissCause cause_of_op(const GraphIdentity& identity, const BakedText& number, const std::deque<Graph>& compiled);

}  // namespace runner::backends::tpu
