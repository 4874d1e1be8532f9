// An error of another rank, thrown where this one has heard of it.
//
// It says what there is to say of its place: notes of this rank's, as of its device, its batch or the hook's callers,
// would be about where it has waited.  Whoever adds such lets it pass.
#pragma once

#include "schema/error.h"

namespace runner::backends {

class RankError : public Error {
 public:
  using Error::Error;
};

}  // namespace runner::backends
