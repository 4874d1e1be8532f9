// `runner plan` for people.  Thread-safe.
#pragma once

#include <string>

#include "runner/train/session.h"

namespace runner::report {

// Data, batch arithmetic, model, memory, length of the run, learning rate.
std::string session_text(const train::Session& session);

}  // namespace runner::report
