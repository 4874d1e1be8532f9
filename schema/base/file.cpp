#include "schema/base/file.h"

#include <fstream>
#include <iterator>

namespace runner {

std::optional<std::string> read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::error_code ignored;
  if (!file || std::filesystem::is_directory(path, ignored)) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace runner
