// The source files of a hook: reads them, keeps their order, and finds the file that an error of Lua names.
//
// Not thread-safe.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "schema/base/source_mark.h"

namespace runner::lua {

struct SourceFile {
  std::string path;  // as shown in messages
  std::string text;
};

class HookSources {
 public:
  // `recorded`: texts used instead of the files with these paths, which need not exist.
  explicit HookSources(std::vector<SourceFile> recorded) : recorded_(std::move(recorded)) {}

  // Reads a file and returns the part that Lua compiles: without a byte order mark, and without a first line that
  // begins with #. The text is valid until the next call. Throws Error(kRecipe) if the file cannot be read, is too
  // large, or is not text.
  std::string_view read(const std::filesystem::path& file);
  bool is_recorded(const std::filesystem::path& file) const { return recorded(file) != nullptr; }
  // Files read so far, in order.
  const std::vector<SourceFile>& all() const { return all_; }

  // Removes the prefix "file:12: " from `message` if the file is one of these, and returns it as a mark.
  SourceMark take_line(std::string& message) const;

 private:
  const SourceFile* recorded(const std::filesystem::path& file) const;

  const std::vector<SourceFile> recorded_;
  std::vector<SourceFile> all_;
};

// Returns the path of the module `name`: require "a.b" means a/b.lua in `folder`. Throws Error(kRun) if the name is
// invalid.
std::filesystem::path file_of_module(const std::string& name, const std::filesystem::path& folder);
// Throws Error(kRun) if `file`, required as `name`, does not exist or is reached through a link that leaves `folder`.
void check_module_file(const std::filesystem::path& file, const std::filesystem::path& folder, const std::string& name);

}  // namespace runner::lua
