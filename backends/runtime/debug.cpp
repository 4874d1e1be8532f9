#include "backends/runtime/debug.h"

#include <cstdio>
#include <cstdlib>

namespace runner::backends {

int debug_level() {
  static const int level = [] {
    const char* text = std::getenv("RUNNER_DEBUG");
    return text ? std::atoi(text) : 0;
  }();
  return level;
}

void debug_print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace runner::backends
