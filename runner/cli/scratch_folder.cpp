#include "runner/cli/scratch_folder.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include <fmt/format.h>

#include "schema/base/error.h"

namespace runner::cli {

ScratchFolder::ScratchFolder(std::string_view purpose) {
  const char* const named = std::getenv("TMPDIR");
  const std::filesystem::path folder = named != nullptr && *named != '\0' ? named : "/tmp";
  std::string pattern = (folder / fmt::format("runner-{}-XXXXXX", purpose)).string();
  RUN_CHECK(::mkdtemp(pattern.data()) != nullptr, ErrorKind::kRun,
            "cannot create a temporary folder in {}: {}; set TMPDIR to another folder", folder.string(),
            std::strerror(errno));
  path_ = pattern;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace runner::cli
