// Counts the SQLite calls of a thread. Linking runner_sqlite_calls watches every connection of the test binary.
#pragma once

#include <cstdint>

namespace runner::support {

// At least one for every connection opened or closed, every statement prepared, begun or finalized, and every row.
int64_t sqlite_calls_of_this_thread();

}  // namespace runner::support
