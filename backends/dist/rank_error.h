// An error of another rank, rethrown on this one.
//
// Its message already has the location. Code that adds notes about this rank (device, batch, hook call stack) lets it
// pass unchanged, since they would describe the place where this rank waited.
#pragma once

#include "schema/base/error.h"

namespace runner::backends {

class RankError : public Error {
 public:
  using Error::Error;
};

}  // namespace runner::backends
