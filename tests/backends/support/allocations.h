// Counts what operator new hands out in this test binary, on all threads.
#pragma once

#include <cstdint>

namespace runner::backends::testing {

int64_t allocations();

}  // namespace runner::backends::testing
