// Compares the generated pages with those in docs/.
#include "tests/docs/pages.h"

#include <gtest/gtest.h>

#include "tests/cli/command.h"
#include "tests/docs/blocks.h"
#include "tests/docs/transcript.h"
#include "tests/support/paths.h"
#include "tests/support/pattern.h"

namespace runner::docs {
namespace {

using cli::testing::read_text;

constexpr const char* kRefresh = "build the target pages";

TEST(Pages, AreUpToDate) {
  EXPECT_EQ(read_text(support::source_path("docs/commands.md")), command_page()) << kRefresh;
  // Ids and times may differ.
  const std::string shown = read_text(support::source_path("docs/error_catalogue.md")), made = error_page();
  EXPECT_TRUE(shows(shown, made)) << kRefresh << "\n" << made;
}

TEST(Pages, ListAllDecisions) {
  EXPECT_EQ(read_text(support::source_path("docs/decisions/README.md")), decision_page()) << kRefresh;
}

// Splits off the lines of code at the end of a row: 1800 for "1.8k".
std::pair<std::string, double> without_lines(const std::string& row) {
  static const support::Pattern lines(R"( ([0-9.]+)(k?) \|$)");
  const auto found = lines.find(row);
  if (!found) return {row, 0};
  return {row.substr(0, row.size() - found->at(0).size()), std::stod(found->at(1)) * (found->at(2).empty() ? 1 : 1000)};
}

// Lines of code may differ by a third.
TEST(Pages, StructureMatchesTheTree) {
  const std::vector<std::string> shown = lines_of(read_text(support::source_path("docs/structure.md")));
  const std::vector<std::string> made = lines_of(structure_page());
  ASSERT_EQ(shown.size(), made.size()) << kRefresh;
  for (size_t i = 0; i < made.size(); ++i) {
    const auto [expected, lines] = without_lines(made[i]);
    const auto [row, shown_lines] = without_lines(shown[i]);
    EXPECT_EQ(row, expected) << kRefresh;
    EXPECT_NEAR(shown_lines, lines, lines / 3) << kRefresh;
  }
}

TEST(Pages, ErrorCatalogueIsTheSameInEachBuild) {
  EXPECT_EQ(error_page(), error_page());
}

TEST(Pages, HaveAnExampleOfEachError) {
  const auto examples = error_examples();
  const std::string page = read_text(support::source_path("docs/error_catalogue.md"));
  ASSERT_EQ(examples.size(), schema::error_ids().size());
  for (size_t i = 0; i < examples.size(); ++i) {
    const schema::ErrorIdRow& row = schema::error_ids()[i];
    EXPECT_EQ(examples[i].id, row.id) << row.name;
    // The output in the section of an id contains the id.
    const size_t start = page.find(fmt::format("\n## {}\n", row.name));
    ASSERT_NE(start, std::string::npos) << row.name;
    const size_t end = std::min(page.find("\n## ", start + 1), page.size());
    EXPECT_NE(page.substr(start, end - start).find(fmt::format("[{}]", row.name)), std::string::npos) << row.name;
  }
}

}  // namespace
}  // namespace runner::docs
