// Runs every fenced block of the documents in order (rules: CONTRIBUTING.md).
#include <algorithm>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/docs/follower.h"
#include "tests/support/expected_text.h"
#include "tests/support/paths.h"

namespace runner::docs {
namespace {

namespace fs = std::filesystem;

class Documents : public ::testing::TestWithParam<std::string> {};

TEST_P(Documents, BlocksRunAsShown) {
  const fs::path path = fs::path(support::source_path()) / GetParam();
  const std::vector<Block> blocks = read_blocks(path);
  const std::vector<std::string> lines = lines_of(cli::testing::read_text(path));
  // Every fence belongs to a block.
  EXPECT_EQ(2 * blocks.size(), std::count_if(lines.begin(), lines.end(), [](const std::string& line) {
              return line.find("```") != std::string::npos;
            }));
  Follower follower(GetParam(), support::should_update());
  for (const Block& block : blocks) follower.follow(block);
  for (const std::string& failure : follower.failures()) ADD_FAILURE() << failure;
  if (!follower.changes().empty())
    cli::testing::write_text(path, with_changes(cli::testing::read_text(path), follower.changes()));
  if (!follower.missing().empty()) GTEST_SKIP() << fmt::format("{}", fmt::join(follower.missing(), "\n"));
}

INSTANTIATE_TEST_SUITE_P(All, Documents, ::testing::ValuesIn(documents()), [](const auto& page) {
  std::string name = fs::path(page.param).replace_extension();
  std::erase_if(name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); });
  return name;
});

}  // namespace
}  // namespace runner::docs
