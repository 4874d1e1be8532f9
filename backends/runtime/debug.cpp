#include "backends/runtime/debug.h"

#include <cstdlib>

namespace runner::backends {

int debug_level() {
  static const int level = [] {
    const char* text = std::getenv("RUNNER_DEBUG");
    return text ? std::atoi(text) : 0;
  }();
  return level;
}

}  // namespace runner::backends
