// Folders and files of one test.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace runner::support {

// An empty folder that is removed with the object, whatever it contains and whatever the permissions are.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

  // Names in it, sorted, separated by a space.
  std::string listing() const;

 private:
  std::filesystem::path path_;
};

// Makes a folder the working directory while the object exists.
class CurrentFolder {
 public:
  explicit CurrentFolder(const std::filesystem::path& folder);
  ~CurrentFolder();
  CurrentFolder(const CurrentFolder&) = delete;
  CurrentFolder& operator=(const CurrentFolder&) = delete;

 private:
  std::filesystem::path before_;
};

// Returns all bytes of a file; "" if it cannot be read.
std::string read_text(const std::filesystem::path& path);

// Creates or replaces a file, and the folders above it.
void write_text(const std::filesystem::path& path, std::string_view text);

}  // namespace runner::support
