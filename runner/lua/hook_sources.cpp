#include "runner/lua/hook_sources.h"

#include <algorithm>
#include <cstdlib>

#include <lua.hpp>

#include "runner/formats/text_file.h"
#include "runner/formats/used_files.h"
#include "schema/base/error.h"
#include "schema/base/file.h"
#include "schema/base/text.h"
#include "schema/base/utf8.h"

namespace runner::lua {
namespace {

// Returns the first line, from 1, that is not UTF-8.
int line_of_wrong_byte(std::string_view text) {
  int line = 1;
  for (size_t end = 0; (end = text.find('\n')) != std::string_view::npos; ++line) {
    if (!is_utf8(text.substr(0, end))) return line;
    text.remove_prefix(end + 1);
  }
  return line;
}

// Reads a file of Lua source text. Throws Error(kRecipe).
std::string read_text(const std::filesystem::path& file, const std::string& name) {
  constexpr size_t kLargest = size_t{16} << 20;  // bytes
  RegularFile opened(file);
  const auto refuse = [&] { fail(ErrorKind::kRecipe, "cannot read the hook {}: {}", name, opened.problem()); };
  if (!opened.is_open()) refuse();
  formats::remember_used_file(file, formats::FileRole::kHook);
  std::string source;
  if (!opened.read_text(source, kLargest)) refuse();
  RUN_CHECK(source.size() <= kLargest, ErrorKind::kRecipe, "the hook {} is larger than {} MiB", name, kLargest >> 20);
  RUN_CHECK(!source.starts_with(LUA_SIGNATURE), ErrorKind::kRecipe,
            "the hook {} is compiled Lua; expected Lua source text", name);
  formats::byte_order_mark(source, "the hook " + name, ErrorKind::kRecipe);  // refuses UTF-16
  if (!is_utf8(source))
    throw Error(ErrorKind::kRecipe, "the hook is not UTF-8 text", {name, line_of_wrong_byte(source), 0});
  return source;
}

// Skips the same prefix as the program `lua`. The newline of the first line stays, so that line numbers do not change.
std::string_view code_of(std::string_view source) {
  source.remove_prefix(formats::byte_order_mark(source, "the hook", ErrorKind::kRecipe));
  if (source.starts_with('#')) source.remove_prefix(std::min(source.find('\n'), source.size()));
  return source;
}

// Maps "a.b" to "a/b.lua". Returns an empty path if the name is invalid.
std::filesystem::path path_of_module(std::string_view name) {
  std::string path;
  bool starts = true;
  for (const char c : name) {
    if (!is_word_byte(c) && c != '-' && (c != '.' || starts)) return {};
    path += c == '.' ? '/' : c;
    starts = c == '.';
  }
  return starts ? std::filesystem::path() : std::filesystem::path(path + ".lua");
}

// Returns the path as Lua shows it in messages, which shorten long names.
std::string shown_by_lua(const std::string& path) {
  if (path.size() < LUA_IDSIZE) return path;
  return "..." + path.substr(path.size() - (LUA_IDSIZE - sizeof "..."));
}

}  // namespace

const SourceFile* HookSources::recorded(const std::filesystem::path& file) const {
  const auto found = std::ranges::find_if(recorded_, [&](const SourceFile& source) {
    return std::filesystem::path(source.path).lexically_normal() == file.lexically_normal();
  });
  return found == recorded_.end() ? nullptr : &*found;
}

std::string_view HookSources::read(const std::filesystem::path& file) {
  const std::string name = file.string();
  const SourceFile* const known = recorded(file);
  all_.push_back({name, known != nullptr ? known->text : read_text(file, name)});
  return code_of(all_.back().text);
}

SourceMark HookSources::take_line(std::string& message) const {
  for (const SourceFile& source : all_) {
    for (const std::string& prefix : {source.path, shown_by_lua(source.path)}) {
      if (!message.starts_with(prefix + ":")) continue;
      char* end = nullptr;
      const long line = std::strtol(message.c_str() + prefix.size() + 1, &end, 10);
      if (line <= 0 || end[0] != ':' || end[1] != ' ') continue;
      message.erase(0, static_cast<size_t>(end + 2 - message.c_str()));
      return {source.path, static_cast<int>(line), 0};
    }
  }
  return {};
}

std::filesystem::path file_of_module(const std::string& name, const std::filesystem::path& folder) {
  const std::filesystem::path relative = path_of_module(name);
  RUN_CHECK(
      !relative.empty(), ErrorKind::kRun,
      "require: '{}' is not a module name; write require \"lib.name\" for lib/name.lua in the folder of the hook file",
      name);
  return (folder / relative).lexically_normal();
}

void check_module_file(const std::filesystem::path& file, const std::filesystem::path& folder,
                       const std::string& name) {
  std::error_code ignored;  // set for a name that no file can have
  RUN_CHECK(std::filesystem::is_regular_file(file, ignored), ErrorKind::kRun,
            "require: module '{}' not found: it is not built in, and {} is not a file", name, file.string());
  RUN_CHECK(is_inside(file, folder), ErrorKind::kRun, "require: {} is a link to a file outside the hook's folder",
            file.string());
}

}  // namespace runner::lua
