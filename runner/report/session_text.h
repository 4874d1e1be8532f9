// What `runner plan` prints.  Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "runner/train/session.h"

namespace runner::report {

// Data, batch arithmetic, model, memory, length of the run, learning rate.
std::string session_text(const train::Session& session);

// `plan` (data::plan_json) with model size, memory, length of the run, learning rate and `warnings` added to it.
std::string session_document(const train::Session& session, std::string plan, const std::vector<std::string>& warnings);

}  // namespace runner::report
