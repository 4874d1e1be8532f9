// Threads that do not end, as of a kernel that never returns. What they use is kept, and the process ends without them.
//
// Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace runner::backends {

// Keeps `used`, which a thread that cannot be joined still uses, until the process ends. `text`: "gpu 0 is still at
// matmul of h.lua:3".
void abandon(std::shared_ptr<void> used, std::string text);

// Returns the texts of all calls. If there are any, the process must end without destroying static objects.
std::vector<std::string> abandoned();

}  // namespace runner::backends
