// Rules for the source tree that the compiler does not check (CONTRIBUTING.md): allowed includes and the form of
// headers.
#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/cli/command.h"
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
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(RUNNER_SOURCE_DIR) / folder, kFollow)) {
      const std::string extension = entry.path().extension();
      if (extension != ".h" && extension != ".cpp") continue;
      Source source{entry.path().lexically_relative(RUNNER_SOURCE_DIR), read_text(entry.path()), {}};
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

TEST(Tree, FoldersIncludeOnlyLowerFolders) {
  const std::vector<std::string> ours{"schema/", "backends/", "store/", "runner/", "tests/", "bench/"};
  const std::map<std::string, std::vector<std::string>> allowed{
      {"schema", {"schema/"}},
      {"backends", {"backends/", "schema/base/error.h", "schema/base/source_mark.h"}},
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

TEST(Tree, BaseOfTheSchemaIncludesNothingElse) {
  for (const Source& source : sources()) {
    if (!source.path.starts_with("schema/base/")) continue;
    for (const std::string& name : source.includes)
      EXPECT_TRUE(!name.starts_with("schema/") || name.starts_with("schema/base/"))
          << source.path << " includes " << name;
  }
}

// The layers of the engine, and its contract, which depends only on the Program and the collectives.
TEST(Tree, EngineFoldersIncludeOnlyLowerFolders) {
  std::vector<std::string> lower;
  std::set<std::string> folders;
  for (const char* folder : {"tensor", "runtime", "dist", "ir", "kernels", "plan"}) {
    lower.push_back(fmt::format("backends/{}/", folder));
    for (const Source& source : sources()) {
      if (!source.path.starts_with(lower.back())) continue;
      folders.insert(folder);
      for (const std::string& name : source.includes) {
        EXPECT_TRUE(!name.starts_with("backends/") || starts_with_any(name, lower))
            << source.path << " includes " << name;
      }
    }
  }
  EXPECT_EQ(folders.size(), lower.size());
  for (const Source& source : sources()) {
    if (source.path != "backends/backend.h") continue;
    for (const std::string& name : source.includes) {
      EXPECT_TRUE(!name.starts_with("backends/") || name == "backends/ir/traced_scalar.h" ||
                  name == "backends/dist/exchange.h")
          << source.path << " includes " << name;
    }
  }
}

// Within runner/: file formats include no other folder; models, optimizers and data include neither training nor each
// other; training includes no reports; reports include no commands.
TEST(Tree, FoldersOfRunnerIncludeOnlyLowerFolders) {
  const std::map<std::string, std::vector<std::string>> allowed{
      {"formats", {}},
      {"data", {"formats"}},
      {"nn", {"formats"}},
      {"optim", {}},
      {"train", {"formats", "data", "nn", "optim"}},
      {"lua", {"formats", "data", "nn", "optim", "train"}},
      {"report", {"formats", "data", "nn", "optim", "train"}},
      {"cli", {"formats", "data", "nn", "optim", "train", "lua", "report"}},
  };
  const std::string root = "runner/";
  const auto folder_of = [&](const std::string& path) {
    return path.substr(root.size(), path.find('/', root.size()) - root.size());
  };
  for (const Source& source : sources()) {
    if (!source.path.starts_with(root) || source.path == "runner/main.cpp") continue;
    const std::string folder = folder_of(source.path);
    ASSERT_TRUE(allowed.contains(folder)) << folder << " has no row in this test";
    const auto& below = allowed.at(folder);
    for (const std::string& name : source.includes) {
      if (!name.starts_with(root) || folder_of(name) == folder) continue;
      EXPECT_TRUE(std::find(below.begin(), below.end(), folder_of(name)) != below.end())
          << source.path << " includes " << name;
    }
  }
}

TEST(Tree, LibrariesAreUsedOnlyInTheirFolders) {
  struct Library {
    std::string header;
    std::string folder;
    size_t most_files;
  };
  for (const Library& library :
       {Library{"CLI/", "runner/cli/", 1}, Library{"oneapi/dnnl/", "backends/kernels/", 1},
        Library{"lua.hpp", "runner/lua/", 33}, Library{"sqlite3.h", "store/", 3}, Library{"sqlite3ext.h", "store/", 1},
        Library{"yaml-cpp/", "schema/", 2}, Library{"zlib.h", "", 3}, Library{"nlohmann/", "", 4}}) {
    std::set<std::string> users;
    for (const Source& source : sources()) {
      for (const std::string& name : source.includes) {
        if (!name.starts_with(library.header)) continue;
        users.insert(source.path);
        EXPECT_FALSE(source.is_header()) << source.path << " includes " << name;
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
