// Compares the generated pages with those in docs/.
#include "tests/docs/pages.h"

#include <gtest/gtest.h>

#include "tests/cli/command.h"
#include "tests/docs/transcript.h"
#include "tests/support/paths.h"

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

std::string without_digits(std::string text) {
  std::erase_if(text, [](char c) { return c >= '0' && c <= '9'; });
  return text;
}

// Sizes may differ.
TEST(Pages, StructureMatchesTheTree) {
  const std::string shown = read_text(support::source_path("docs/structure.md"));
  EXPECT_EQ(without_digits(shown), without_digits(structure_page())) << kRefresh;
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
