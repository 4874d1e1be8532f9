// The scenarios of `selftest` and those of this folder: each topic of Accelerate's tests has one or a reason, failed
// checks are detected, and the scenarios of this folder pass. The example of the command in docs/commands.md shows that
// those of the program pass.
#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

#include "runner/cli/scenarios/document.h"
#include "tests/cli/command.h"
#include "tests/cli/scenarios/more_scenarios.h"
#include "tests/support/paths.h"

namespace runner::cli::testing {
namespace {

using scenarios::Scenario;

std::vector<Scenario> more_scenarios() {
  std::vector<Scenario> all;
  for (const auto part : {scenarios::data_scenarios(), scenarios::process_scenarios(), scenarios::training_scenarios(),
                          scenarios::metric_scenarios(), scenarios::state_scenarios()})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

std::vector<Scenario> all_scenarios() {
  std::vector<Scenario> all = more_scenarios();
  const std::span<const Scenario> own = scenarios::selftest_scenarios();
  all.insert(all.end(), own.begin(), own.end());
  return all;
}

std::set<std::string> sources_of(const Scenario& scenario) {
  std::set<std::string> sources;
  std::istringstream words{std::string(scenario.source)};
  for (std::string word; std::getline(words >> std::ws, word, ',');) sources.insert(word);
  return sources;
}

// ---- documentation --------------------------------------------------------------------------------------------------

TEST(Selftest, IdsAreUnique) {
  std::set<std::string_view> ids;
  for (const Scenario& scenario : all_scenarios()) {
    EXPECT_TRUE(ids.insert(scenario.id).second) << scenario.id;
    EXPECT_FALSE(scenario.about.empty() || scenario.source.empty()) << scenario.id;
  }
}

// Rows of the table are "| test | checks | scenarios |". The last column of a test without a scenario is the reason.
TEST(Selftest, ScenariosMatchTheDocumentation) {
  std::map<std::string, std::set<std::string>> expected, shown;
  std::set<std::string> explained;
  for (const Scenario& scenario : all_scenarios()) {
    for (const std::string& source : sources_of(scenario)) expected[source].insert(std::string(scenario.id));
  }
  const std::string text = read_text(support::source_path("docs/selftest.md"));
  std::istringstream page(text.substr(text.find("## Accelerate")));
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("| ") || line.starts_with("| test")) continue;
    const std::string number = line.substr(2, line.find(' ', 2) - 2);
    if (line.find('`') == std::string::npos) explained.insert(number);
    for (size_t at = 0; (at = line.find('`', at)) != std::string::npos;) {
      const size_t end = line.find('`', at + 1);
      shown[number].insert(line.substr(at + 1, end - at - 1));
      at = end + 1;
    }
  }
  EXPECT_EQ(shown, expected);
  for (int test = 1; test <= 60; ++test)
    EXPECT_NE(expected.contains(std::to_string(test)), explained.contains(std::to_string(test))) << test;
}

TEST(Selftest, DocumentationListsTheScenariosOfTheProgram) {
  const std::string page = read_text(support::source_path("docs/selftest.md"));
  const std::string list = page.substr(0, page.find("## "));
  for (const Scenario& scenario : scenarios::selftest_scenarios())
    EXPECT_NE(list.find("| `" + std::string(scenario.id) + "` |"), std::string::npos) << scenario.id;
}

// ---- checks ---------------------------------------------------------------------------------------------------------

// A workbench whose program is never run.
class Checks : public ::testing::Test {
 protected:
  bool last_passed() const { return bench_.checks.back().passed; }

  Folder folder_;
  train::ChildWatch watch_;
  const scenarios::Backend backend_{"cpu", {}};
  scenarios::Workbench bench_{"", folder_.path(), backend_, watch_};
};

TEST_F(Checks, PassOnlyIfTheValuesMatch) {
  bench_.equal("text", "a", "a");
  EXPECT_TRUE(last_passed());
  bench_.equal("number", 1, 2);
  EXPECT_FALSE(last_passed());
  bench_.close("near", {1, 2.001}, {1, 2}, 1e-3);
  EXPECT_TRUE(last_passed());
  bench_.close("too far", {1, 2.003}, {1, 2}, 1e-3);
  EXPECT_FALSE(last_passed());
  bench_.close("not a number", {NAN}, {1}, 1e-3);
  EXPECT_FALSE(last_passed());
  bench_.close("fewer", {1}, {1, 2}, 1e-3);
  EXPECT_FALSE(last_passed());
  bench_.close("none at all", {}, {}, 1e-3);
  EXPECT_FALSE(last_passed());
  bench_.at_least("enough", NAN, 1);
  EXPECT_FALSE(last_passed());
  bench_.refused("refused otherwise", {.exit_code = 2, .out = "", .err = "error: other"}, 2, "this");
  EXPECT_FALSE(last_passed());
}

TEST(Selftest, BatchesAsText) {
  EXPECT_EQ(scenarios::batches_text(json::parse("[[[0,1,2],[6,0,1]],[],[[4]]]")), "0-2 6,0-1 | none | 4");
}

// ---- scenarios of this folder ---------------------------------------------------------------------------------------

class Scenarios : public ::testing::TestWithParam<Scenario> {};

TEST_P(Scenarios, PassOnEveryBackend) {
  const train::ChildWatch watch;
  for (const scenarios::Backend& backend : scenarios::backends()) {
    if (!GetParam().only.empty() && GetParam().only != backend.name) continue;
    const report::ScenarioResult result = scenarios::run(GetParam(), support::build_path("bin/runner"), backend, watch);
    EXPECT_TRUE(result.passed()) << report::selftest_text({&result, 1}, 0, false);
  }
}

INSTANTIATE_TEST_SUITE_P(, Scenarios, ::testing::ValuesIn(more_scenarios()), [](const auto& test) {
  std::string name(test.param.id);
  name[name.find('/')] = '_';
  return name;
});

}  // namespace
}  // namespace runner::cli::testing
