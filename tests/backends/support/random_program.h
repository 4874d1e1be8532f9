// Random Programs: every class of op, all dtypes, views, broadcasts, derivatives, and states updated in every way.
//
// A Program is a function of (seed, steps). With fewer steps it is a prefix, except for its outputs, so a failure can
// be reduced by lowering the number of steps.
#pragma once

#include "tests/backends/support/run_program.h"

namespace runner::backends::testing {

struct RandomProgram {
  RandomProgram(uint32_t seed, int steps);

  Program program;
  Inputs inputs;
};

}  // namespace runner::backends::testing
