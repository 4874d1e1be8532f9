// The scenarios of `selftest`: each of Accelerate's tests has one, and wrong figures are detected. The example of the
// command in docs/commands.md shows that all scenarios pass.
#include <map>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

#include "runner/cli/scenarios/document.h"
#include "runner/cli/scenarios/scenario.h"
#include "tests/cli/command.h"
#include "tests/support/paths.h"

namespace runner::cli::testing {
namespace {

using scenarios::Scenario;

std::set<std::string> sources_of(const Scenario& scenario) {
  std::set<std::string> sources;
  std::istringstream words{std::string(scenario.source)};
  for (std::string word; std::getline(words >> std::ws, word, ',');) sources.insert(word);
  return sources;
}

TEST(Selftest, IdsAreUniqueAndScenariosRunOrHaveAReason) {
  std::set<std::string_view> ids;
  for (const Scenario& scenario : scenarios::all_scenarios()) {
    EXPECT_TRUE(ids.insert(scenario.id).second) << scenario.id;
    EXPECT_NE(scenario.check != nullptr, !scenario.reason.empty()) << scenario.id;
    EXPECT_FALSE(scenario.about.empty() || scenario.source.empty()) << scenario.id;
  }
}

TEST(Selftest, ScenariosMatchTheDocumentation) {
  std::map<std::string, std::set<std::string>> wanted, shown;
  for (const Scenario& scenario : scenarios::all_scenarios()) {
    for (const std::string& source : sources_of(scenario)) wanted[source].insert(std::string(scenario.id));
  }
  std::istringstream page(read_text(support::source_path("docs/selftest.md")));
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("| ") || line.starts_with("| test")) continue;
    const std::string number = line.substr(2, line.find(' ', 2) - 2);
    for (size_t at = 0; (at = line.find('`', at)) != std::string::npos;) {
      const size_t end = line.find('`', at + 1);
      shown[number].insert(line.substr(at + 1, end - at - 1));
      at = end + 1;
    }
  }
  EXPECT_EQ(shown, wanted);
  for (int test = 1; test <= 60; ++test) EXPECT_TRUE(wanted.contains(std::to_string(test))) << test;
}

// A workbench whose program is never run.
class Figures : public ::testing::Test {
 protected:
  bool last_is_right() const { return bench_.figures.back().right; }

  Folder folder_;
  train::ChildWatch watch_;
  const scenarios::Backend backend_{"cpu", {}};
  scenarios::Workbench bench_{folder_.path(), backend_, watch_};
};

TEST_F(Figures, AreRightOnlyIfTheValuesMatch) {
  bench_.equal("text", "a", "a");
  EXPECT_TRUE(last_is_right());
  bench_.equal("number", 1, 2);
  EXPECT_FALSE(last_is_right());
  bench_.close("near", {1, 2.001}, {1, 2}, 1e-3);
  EXPECT_TRUE(last_is_right());
  bench_.close("too far", {1, 2.003}, {1, 2}, 1e-3);
  EXPECT_FALSE(last_is_right());
  bench_.close("not a number", {NAN}, {1}, 1e-3);
  EXPECT_FALSE(last_is_right());
  bench_.close("fewer", {1}, {1, 2}, 1e-3);
  EXPECT_FALSE(last_is_right());
  bench_.close("none at all", {}, {}, 1e-3);
  EXPECT_FALSE(last_is_right());
  bench_.at_least("enough", NAN, 1);
  EXPECT_FALSE(last_is_right());
  bench_.refused("refused otherwise", {.exit_code = 2, .out = "", .err = "error: other"}, 2, "this");
  EXPECT_FALSE(last_is_right());
}

TEST(Selftest, BatchesAsText) {
  EXPECT_EQ(scenarios::batches_text(json::parse("[[[0,1,2],[6,0,1]],[],[[4]]]")), "0-2 6,0-1 | none | 4");
}

}  // namespace
}  // namespace runner::cli::testing
