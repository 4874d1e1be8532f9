// Texts and JSON of peak memory, measured or predicted. Thread-safe.
#pragma once

#include <string>

#include "runner/train/engine/memory_use.h"
#include "schema/base/json.h"

namespace runner::report {

// {"training", "evaluation", "saving"}, in bytes.
json::Object peak_json(const train::PeakMemory& peak);

// Text of such an object: "219.6 KiB in training, 371.2 KiB in saving". Omits phases that did not occur.
std::string peak_text(const json::Value& phases);

}  // namespace runner::report
