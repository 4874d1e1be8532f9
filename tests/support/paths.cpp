#include "tests/support/paths.h"

#include <filesystem>

namespace runner::support {

std::string source_path(std::string_view file) {
  return file.empty() ? RUNNER_SOURCE_DIR : std::filesystem::path(RUNNER_SOURCE_DIR) / file;
}

std::string build_path(std::string_view file) {
  return std::filesystem::path(RUNNER_BUILD_DIR) / file;
}

}  // namespace runner::support
