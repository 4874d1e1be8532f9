// Compares the manuals with the tables of the program and checks links.
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runner/cli/exit_codes.h"
#include "tests/cli/command.h"
#include "tests/docs/blocks.h"
#include "tests/docs/pages.h"
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

std::vector<std::string> documents_and_decisions() {
  std::vector<std::string> pages = documents();
  for (const std::string& record : decisions()) pages.push_back(record);
  return pages;
}

// Links from one page to another, to a heading or to a file. docs/ and recipes/ are installed side by side.
TEST(Manuals, LinkTargetsExist) {
  static const support::Pattern link(R"(\]\(([^)#]*)#?([^)]*)\))");
  for (const std::string& name : documents_and_decisions()) {
    const fs::path path = fs::path(support::source_path()) / name;
    for (const support::Pattern::Groups& found : link.find_all(read_text(path))) {
      const fs::path target = found[1].empty() ? path : path.parent_path() / found[1];
      EXPECT_TRUE(fs::exists(target)) << name << ": " << found[0];
      const std::string place = target.lexically_relative(support::source_path()).lexically_normal();
      const bool installed = place.starts_with("docs") || place.starts_with("recipes");
      EXPECT_TRUE(installed || !name.starts_with("docs/")) << name << ": " << found[0] << " is not installed";
      EXPECT_TRUE(found[2].empty() || anchors(target).contains(found[2])) << name << ": " << found[0];
    }
  }
}

// Paths from the root of the source tree.
std::vector<std::string> source_files() {
  std::vector<std::string> files;
  for (const char* folder : {"backends", "bench", "runner", "schema", "store", "tests"}) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(support::source_path()) / folder)) {
      if (entry.is_regular_file()) files.push_back(entry.path().lexically_relative(support::source_path()));
    }
  }
  return files;
}

// A page may leave out the first folders of a path.
TEST(Manuals, NamedSourceFilesExist) {
  static const support::Pattern named(R"(`([\w./-]+\.(?:h|cpp|def|py))`)"), foreign("^(c10|jax)/");
  const std::vector<std::string> files = source_files();
  for (const std::string& name : documents_and_decisions()) {
    for (const support::Pattern::Groups& found : named.find_all(read_text(support::source_path(name)))) {
      const bool exists = std::any_of(files.begin(), files.end(), [&](const std::string& file) {
        return file == found[1] || file.ends_with("/" + found[1]);
      });
      EXPECT_TRUE(exists || foreign.occurs_in(found[1])) << name << ": " << found[1];
    }
  }
}

std::set<std::string> words_of_sources() {
  static const support::Pattern source(R"(\.(h|cpp|def|py|yaml)$)"), word(R"([A-Za-z_]\w+)");
  std::set<std::string> words;
  for (const std::string& file : source_files()) {
    if (!source.occurs_in(file)) continue;
    for (const support::Pattern::Groups& found : word.find_all(read_text(support::source_path(file))))
      words.insert(found[0]);
  }
  return words;
}

// A record names types as `CamelCase` or with `::`, and functions with `()`.
TEST(Manuals, NamesInDecisionsOccurInTheSources) {
  static const support::Pattern quoted(R"(`([A-Za-z_:]+(?:\(\))?)`)"), code(R"([A-Z][a-z]+[A-Z]|::|\(\))"),
      word(R"([A-Za-z_]\w+)");
  const std::set<std::string> words = words_of_sources();
  for (const std::string& name : decisions()) {
    for (const support::Pattern::Groups& found : quoted.find_all(read_text(support::source_path(name)))) {
      if (!code.occurs_in(found[1])) continue;
      for (const support::Pattern::Groups& part : word.find_all(found[1]))
        EXPECT_TRUE(words.contains(part[0])) << name << ": " << found[1];
    }
  }
}

}  // namespace
}  // namespace runner::docs
