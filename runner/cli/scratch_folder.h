// An empty folder for temporary files that is removed by the destructor. Not thread-safe.
#pragma once

#include <filesystem>
#include <string_view>

namespace runner::cli {

class ScratchFolder {
 public:
  // Creates a folder whose name contains `purpose`, in TMPDIR or else in /tmp. Throws Error(kRun) if that fails.
  explicit ScratchFolder(std::string_view purpose);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace runner::cli
