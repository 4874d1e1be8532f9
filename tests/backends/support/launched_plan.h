// Plan of a Program whose operations are launched one by one.
#pragma once

#include "backends/exec/plan.h"

namespace runner::backends::testing {

inline Plan launched_plan(const Program& program) {
  return build_plan(program, {.fusion = Fusion::kFlat});
}

}  // namespace runner::backends::testing
