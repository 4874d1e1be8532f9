// Generates docs/structure.md from the table of folders and the files on disk.
#include <algorithm>
#include <filesystem>
#include <map>
#include <string>

#include <fmt/format.h>

#include "tests/cli/command.h"
#include "tests/docs/pages.h"
#include "tests/support/layers.h"
#include "tests/support/paths.h"

namespace runner::docs {
namespace {

namespace fs = std::filesystem;

struct Size {
  size_t files = 0, lines = 0;
};

std::map<const support::Folder*, Size> sizes() {
  std::map<const support::Folder*, Size> sizes;
  for (const char* top : {"schema", "backends", "store", "runner"}) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(support::source_path()) / top)) {
      const std::string extension = entry.path().extension();
      if (extension != ".h" && extension != ".cpp") continue;
      const std::string path = entry.path().lexically_relative(support::source_path());
      const std::string text = cli::testing::read_text(entry.path());
      Size& size = sizes[support::folder_of(path).folder];
      ++size.files;
      size.lines += static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
    }
  }
  return sizes;
}

}  // namespace

std::string structure_page() {
  std::string page = R"(# The source tree

Each folder is a static library. It may include only the folders of rows above it; folders with the same number may not
include each other. A test checks every include. This page is made from the table in `tests/support/layers.cpp`
(`cmake --build build --target pages`).

| layer | folder | content | files | lines |
|---|---|---|---|---|
)";
  const std::map<const support::Folder*, Size> counted = sizes();
  for (size_t layer = 0; layer < support::layers().size(); ++layer) {
    for (const support::Folder& folder : support::layers()[layer]) {
      const Size& size = counted.at(&folder);
      page +=
          fmt::format("| {} | `{}/` | {} | {} | {} |\n", layer + 1, folder.path, folder.holds, size.files, size.lines);
    }
  }
  return page;
}

}  // namespace runner::docs
