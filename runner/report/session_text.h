// What `runner plan` prints.  Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "runner/train/loop/session.h"
#include "schema/json.h"

namespace runner::report {

// Data, batch arithmetic, model, memory, length of the run, learning rate, which is also plotted, in `width` columns.
std::string session_text(const train::Session& session, int width, bool color);

// `plan` (data::plan_json) with model size, memory, length of the run, learning rates, and `more` added to it.
std::string session_document(const train::Session& session, std::string plan, const json::Object& more);

}  // namespace runner::report
