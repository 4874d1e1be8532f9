// Generates docs/structure.md from the table of folders and the files on disk.
#include <algorithm>
#include <cstdint>
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

std::map<const support::Folder*, int64_t> lines_by_folder() {
  std::map<const support::Folder*, int64_t> lines;
  for (const char* top : {"schema", "backends", "store", "runner"}) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(support::source_path()) / top)) {
      const std::string extension = entry.path().extension();
      if (extension != ".h" && extension != ".cpp") continue;
      const std::string path = entry.path().lexically_relative(support::source_path());
      const std::string text = cli::testing::read_text(entry.path());
      lines[support::folder_of(path).folder] += std::count(text.begin(), text.end(), '\n');
    }
  }
  return lines;
}

// Examples: 10, 330, "1.8k".
std::string rounded(int64_t lines) {
  return lines < 1000 ? fmt::format("{}", (lines + 5) / 10 * 10)
                      : fmt::format("{:.1f}k", static_cast<double>(lines) / 1000);
}

}  // namespace

std::string structure_page() {
  std::string page = R"(# The source tree

Each folder is a static library. It may include only the folders of lower layers; folders of one layer may not include
each other. A test checks every include. Lines are rounded. This page is generated from the table in
`tests/support/layers.cpp` (`cmake --build build --target pages`).

| layer | folder | content | lines |
|---|---|---|---|
)";
  const std::map<const support::Folder*, int64_t> lines = lines_by_folder();
  for (size_t layer = 0; layer < support::layers().size(); ++layer) {
    for (const support::Folder& folder : support::layers()[layer]) {
      page +=
          fmt::format("| {} | `{}/` | {} | {} |\n", layer + 1, folder.path, folder.holds, rounded(lines.at(&folder)));
    }
  }
  return page;
}

}  // namespace runner::docs
