// Metrics of the emulated GPUs of a run as text. Thread-safe.
#pragma once

#include <string>

#include "schema/base/json.h"

namespace runner::report {

// Formats the document of train/run/gpu_use.h as tables, each after an empty line. Returns "" if there is none.
std::string gpu_text(const json::Value& gpu, int width, bool color);

}  // namespace runner::report
