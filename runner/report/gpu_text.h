// What the emulated GPUs of a run have counted, as people read it.  Thread-safe.
#pragma once

#include <string>

#include "schema/json.h"

namespace runner::report {

// Tables below an empty line each, of the document of train/record/gpu_use.h; empty where there is none.
std::string gpu_text(const json::Value& gpu, int width, bool color);

}  // namespace runner::report
