// An empty folder for temporary files, which disappears with the object.  Not thread-safe.
#pragma once

#include <filesystem>
#include <string_view>

namespace runner::cli {

class ScratchFolder {
 public:
  // Named after `purpose`, where TMPDIR says, else in /tmp.  Throws Error(kRun) where there can be none.
  explicit ScratchFolder(std::string_view purpose);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace runner::cli
