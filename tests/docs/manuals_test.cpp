// Compares the manuals with the tables of the program and checks links.
#include <cctype>
#include <filesystem>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "runner/cli/exit_codes.h"
#include "tests/cli/command.h"
#include "tests/docs/blocks.h"
#include "tests/support/paths.h"
#include "tests/support/pattern.h"

namespace runner::docs {
namespace {

namespace fs = std::filesystem;
using namespace cli;
using testing::read_text;

TEST(Manuals, ExitCodesMatchTheTable) {
  const std::string text = read_text(support::source_path("docs/errors.md"));
  for (const ExitCode& row : exit_codes()) {
    const std::string line = fmt::format("| {} | {} | {} |\n", row.code, row.text, row.remedy);
    EXPECT_NE(text.find(line), std::string::npos) << line;
  }
}

TEST(Manuals, ContentsListEveryPage) {
  const std::string contents = read_text(support::source_path("docs/README.md"));
  for (const std::string& name : documents()) {
    if (!name.starts_with("docs/") || name == "docs/README.md") continue;
    const std::string page = name.substr(5);
    EXPECT_NE(contents.find(fmt::format("[{}]({})", page, page)), std::string::npos) << page;
  }
}

// Returns the anchors of the headings of a page: lower case, hyphens for blanks, no other punctuation.
std::set<std::string> anchors(const fs::path& page) {
  std::set<std::string> found;
  for (const std::string& line : lines_of(read_text(page))) {
    if (!line.starts_with("#")) continue;
    std::string anchor;
    for (const char c : line.substr(line.find_first_not_of("# "))) {
      if (c == ' ') anchor += '-';
      if (std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_')
        anchor += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    found.insert(anchor);
  }
  return found;
}

// Links from one page to another, to a heading or to a file.
TEST(Manuals, LinkTargetsExist) {
  static const support::Pattern link(R"(\]\(([^)#]*)#?([^)]*)\))");
  for (const std::string& name : documents()) {
    const fs::path path = fs::path(support::source_path()) / name;
    for (const support::Pattern::Groups& found : link.find_all(read_text(path))) {
      const fs::path target = found[1].empty() ? path : path.parent_path() / found[1];
      EXPECT_TRUE(fs::exists(target)) << name << ": " << found[0];
      EXPECT_TRUE(found[2].empty() || anchors(target).contains(found[2])) << name << ": " << found[0];
    }
  }
}

}  // namespace
}  // namespace runner::docs
