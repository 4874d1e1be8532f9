// Folders and files of one test.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace runner::support {

// An empty folder that disappears with the object, whatever it holds then and whoever may read it.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

  // Names in it, sorted, one space between.
  std::string listing() const;

 private:
  std::filesystem::path path_;
};

// Makes a folder the current one for as long as the object lives.
class CurrentFolder {
 public:
  explicit CurrentFolder(const std::filesystem::path& folder);
  ~CurrentFolder();
  CurrentFolder(const CurrentFolder&) = delete;
  CurrentFolder& operator=(const CurrentFolder&) = delete;

 private:
  std::filesystem::path before_;
};

// All bytes of a file; "" for what cannot be read.
std::string read_text(const std::filesystem::path& path);

// Makes or replaces a file, and the folders above it.
void write_text(const std::filesystem::path& path, std::string_view text);

}  // namespace runner::support
