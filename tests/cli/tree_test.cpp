// Rules for the source tree that the compiler does not check (CONTRIBUTING.md): allowed includes and the form of
// headers.
#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/cli/command.h"
#include "tests/support/layers.h"
#include "tests/support/paths.h"
#include "tests/support/pattern.h"

namespace runner::cli::testing {
namespace {

namespace fs = std::filesystem;

struct Source {
  std::string path;  // path from the repository root
  std::string text;
  std::vector<std::string> includes;  // <name> without brackets, "name" with quotes

  bool is_header() const { return path.ends_with(".h"); }
};

constexpr auto kFollow = fs::directory_options::follow_directory_symlink;

std::vector<Source> sources() {
  static const support::Pattern include(R"(#include ["<]([^">]+)[">])");
  std::vector<Source> found;
  for (const char* folder : {"schema", "backends", "store", "runner"}) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(support::source_path()) / folder, kFollow)) {
      const std::string extension = entry.path().extension();
      if (extension != ".h" && extension != ".cpp") continue;
      Source source{entry.path().lexically_relative(support::source_path()), read_text(entry.path()), {}};
      std::istringstream lines(source.text);
      for (std::string line; std::getline(lines, line);) {
        if (const auto groups = include.find(line)) source.includes.push_back((*groups)[1]);
      }
      found.push_back(std::move(source));
    }
  }
  return found;
}

bool starts_with_any(const std::string& text, const std::vector<std::string>& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(), [&](const auto& prefix) { return text.starts_with(prefix); });
}

// Text on standard error passes through report::Output, which hides secrets and escapes control sequences. Exceptions
// cannot use it: signal handlers, exhausted memory.
TEST(Tree, OnlyOutputWritesMessages) {
  const std::vector<std::string> exceptions{"runner/report/output.cpp", "runner/cli/interrupt.cpp",
                                            "runner/cli/out_of_memory.cpp"};
  for (const Source& source : sources()) {
    if (!source.path.starts_with("runner/") || std::ranges::find(exceptions, source.path) != exceptions.end()) continue;
    for (const char* writer : {"printf(stderr", "fputs(", "fwrite(", "perror(", "std::cerr", "std::clog", "std::cout",
                               "write(STDERR_FILENO", "std::printf", "std::puts"})
      EXPECT_EQ(source.text.find(writer), std::string::npos) << source.path << ": " << writer;
  }
}

TEST(Tree, FoldersIncludeOnlyLowerFolders) {
  const std::vector<std::string> ours{"schema/", "backends/", "store/", "runner/", "tests/", "bench/"};
  const std::map<std::string, std::vector<std::string>> allowed{
      {"schema", {"schema/"}},
      {"backends",
       {"backends/", "schema/base/duration.h", "schema/base/error.h", "schema/base/parts.h", "schema/base/required.h",
        "schema/base/source_mark.h", "schema/base/system_limits.h"}},
      {"store", {"store/", "schema/"}},
      {"runner", {"runner/", "schema/", "backends/", "store/"}}};
  const std::vector<Source> all = sources();
  EXPECT_GT(all.size(), 200U);
  for (const Source& source : all) {
    const auto& may = allowed.at(source.path.substr(0, source.path.find('/')));
    for (const std::string& name : source.includes) {
      EXPECT_TRUE(!starts_with_any(name, ours) || starts_with_any(name, may)) << source.path << " includes " << name;
    }
  }
}

TEST(Tree, FoldersIncludeOnlyEarlierLayers) {
  std::set<const support::Folder*> folders;
  for (const Source& source : sources()) {
    const support::FolderOf own = support::folder_of(source.path);
    ASSERT_NE(own.folder, nullptr) << source.path << " is in a folder without a row in tests/support/layers.cpp";
    folders.insert(own.folder);
    for (const std::string& name : source.includes) {
      const support::FolderOf other = support::folder_of(name);
      EXPECT_TRUE(other.folder == nullptr || other.folder == own.folder || other.layer < own.layer)
          << source.path << " includes " << name;
    }
    if (own.folder->path == "runner") {
      EXPECT_EQ(source.path, "runner/main.cpp") << "its folder has no row in tests/support/layers.cpp";
    }
  }
  for (const std::vector<support::Folder>& layer : support::layers())
    for (const support::Folder& folder : layer) EXPECT_TRUE(folders.contains(&folder)) << folder.path;
}

// The contract of devices depends only on the Program and the collectives.
TEST(Tree, TheContractOfDevicesIncludesNoDevice) {
  for (const Source& source : sources()) {
    if (source.path != "backends/exec/backend.h") continue;
    for (const std::string& name : source.includes) {
      EXPECT_TRUE(!name.starts_with("backends/") || name == "backends/ir/program.h" ||
                  name == "backends/dist/exchange.h")
          << source.path << " includes " << name;
    }
  }
}

TEST(Tree, LibrariesAreUsedOnlyInTheirFolders) {
  struct Library {
    std::string header;
    std::string folder;
    size_t most_files;
    std::string wrapper = "";  // the only header that may include it
  };
  for (const Library& library :
       {Library{"CLI/", "runner/cli/", 1}, Library{"oneapi/dnnl/", "backends/kernels/", 1, "backends/kernels/onednn.h"},
        Library{"lua.hpp", "runner/lua/", 35}, Library{"sqlite3.h", "store/", 4}, Library{"yaml-cpp/", "schema/", 2},
        Library{"zlib.h", "", 4}, Library{"png.h", "runner/images/", 2}, Library{"jpeglib.h", "runner/images/", 1},
        Library{"nlohmann/", "", 4}}) {
    std::set<std::string> users;
    for (const Source& source : sources()) {
      for (const std::string& name : source.includes) {
        if (!name.starts_with(library.header)) continue;
        users.insert(source.path);
        EXPECT_TRUE(!source.is_header() || source.path == library.wrapper) << source.path << " includes " << name;
        EXPECT_TRUE(source.path.starts_with(library.folder)) << source.path << " includes " << name;
      }
    }
    EXPECT_FALSE(users.empty()) << library.header;
    EXPECT_LE(users.size(), library.most_files) << library.header;
  }
}

TEST(Tree, HeadersBeginWithADescription) {
  for (const Source& source : sources()) {
    if (!source.is_header()) continue;
    EXPECT_TRUE(source.text.starts_with("// ")) << source.path;
    EXPECT_NE(source.text.find("\n#pragma once\n"), std::string::npos) << source.path;
    EXPECT_LE(std::count(source.text.begin(), source.text.end(), '\n'), 600) << source.path;
  }
}

}  // namespace
}  // namespace runner::cli::testing
