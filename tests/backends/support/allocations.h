// Counts what operator new hands out in this test binary, on all threads, but for calls from oneDNN's code.
#pragma once

#include <cstdint>

namespace runner::backends::testing {

int64_t allocations();

}  // namespace runner::backends::testing
