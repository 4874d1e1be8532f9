#include "runner/cli/version.h"

namespace runner::cli {

std::string version() {
  return "runner " RUNNER_VERSION;
}

}  // namespace runner::cli
