// Returns a constant of rank 0.
#pragma once

#include "backends/ir/program.h"

namespace runner::backends::testing {

inline Value scalar(Program& program, double value, DType dtype = DType::kF32) {
  return {&program, program.constant(value, {dtype, {}})};
}

}  // namespace runner::backends::testing
