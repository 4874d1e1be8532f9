// Random Programs: every class of op, all dtypes, views, broadcasts, derivatives, states that are updated in every way.
//
// A Program is a function of (seed, steps), and the Program of fewer steps is a prefix but for its outputs: a failure
// shrinks by asking for fewer steps.
#pragma once

#include "tests/backends/support/run_program.h"

namespace runner::backends::testing {

struct RandomProgram {
  RandomProgram(uint32_t seed, int steps);

  Program program;
  Inputs inputs;
};

}  // namespace runner::backends::testing
