// Output of `runner plan`. Thread-safe.
#pragma once

#include <string>

#include "runner/train/loop/session.h"
#include "schema/base/json.h"

namespace runner::report {

// Data, batch arithmetic, model, memory, length of the run, and learning rate, which is also plotted. `width`: columns.
std::string session_text(const train::Session& session, int width, bool color);

// `plan` (data::plan_json) with model size, memory, length of the run, learning rates, and the members of `more`.
std::string session_document(const train::Session& session, std::string plan, const json::Object& more);

}  // namespace runner::report
