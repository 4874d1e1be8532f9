// The files that a hook consists of: what is read, in order, and which of them an error of Lua names.
//
// Not thread-safe.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "schema/source_mark.h"

namespace runner::lua {

struct Source {
  std::string path;  // as messages name it
  std::string text;
};

class HookSources {
 public:
  // `recorded`: texts that stand for the files of these paths, which need not be there.
  explicit HookSources(std::vector<Source> recorded) : recorded_(std::move(recorded)) {}

  // Reads a file, and gives what Lua is to read of it: no byte order mark, and no first line that begins with #.  Valid
  // until the next call.  Throws Error(kRecipe) where it cannot be read, is too large, or is no text.
  std::string_view read(const std::filesystem::path& file);
  bool is_recorded(const std::filesystem::path& file) const { return recorded(file) != nullptr; }
  // What has been read, in that order.
  const std::vector<Source>& all() const { return all_; }

  // Cuts "file:12: " off the beginning of a message, where the file is one of these.
  SourceMark take_line(std::string& message) const;

 private:
  const Source* recorded(const std::filesystem::path& file) const;

  const std::vector<Source> recorded_;
  std::vector<Source> all_;
};

// The file that require "a.b" means, in `folder`: a/b.lua.  Throws Error(kRun) where the name is none.
std::filesystem::path file_of_module(const std::string& name, const std::filesystem::path& folder);
// Throws Error(kRun) where `file`, which require '`name`' asks for, is not there or is reached through a link that
// leaves `folder`.
void check_module_file(const std::filesystem::path& file, const std::filesystem::path& folder, const std::string& name);

}  // namespace runner::lua
