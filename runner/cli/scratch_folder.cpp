#include "runner/cli/scratch_folder.h"

#include <string>

#include <fmt/format.h>
#include <stdlib.h>

#include "schema/error.h"

namespace runner::cli {

ScratchFolder::ScratchFolder(std::string_view purpose) {
  std::error_code missing;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(missing);
  std::string pattern = (folder / fmt::format("runner-{}-XXXXXX", purpose)).string();
  RUN_CHECK(!missing && ::mkdtemp(pattern.data()) != nullptr, ErrorKind::kRun,
            "cannot make a folder for temporary files in {}; TMPDIR names another place", folder.string());
  path_ = pattern;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace runner::cli
