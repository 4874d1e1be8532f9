// Runs every case of tests/schema/cases and checks that each error id has one.
#include <set>

#include <gtest/gtest.h>

#include "schema/base/diagnostic.h"
#include "tests/schema/case_file.h"
#include "tests/support/expected_text.h"
#include "tests/support/temp_folder.h"

namespace runner::schema::testing {
namespace {

TEST(RecipeCases, MatchTheirExpectation) {
  const bool update = support::should_update();
  for (const std::string& path : case_files()) {
    std::string updated;
    for (const Case& c : read_cases(path)) {
      const Outcome outcome = run_case(c);
      updated += c.source + outcome.text + "\n";
      if (update) continue;
      EXPECT_EQ(outcome.errors, c.expects_errors) << path << ": " << c.name << "\n" << outcome.text;
      EXPECT_EQ(outcome.text, c.expected) << path << ": " << c.name;
    }
    if (update) support::write_text(path, updated.substr(0, updated.size() - 1));
  }
}

TEST(RecipeCases, CoverEveryErrorId) {
  std::set<std::string> covered;
  int wrong = 0, valid = 0;
  for (const std::string& path : case_files()) {
    for (const Case& c : read_cases(path)) {
      ++(c.expects_errors ? wrong : valid);
      for (const ErrorIdRow& row : error_ids()) {
        if (c.expected.find("[" + std::string(row.name) + "]\n") != std::string::npos) covered.emplace(row.name);
      }
    }
  }
  for (const ErrorIdRow& row : error_ids()) {
    if (row.id == ErrorId::kResumeChange) continue;   // needs two recipes: resume_check_test.cpp
    if (row.id == ErrorId::kChangedSecret) continue;  // in the record of a run: secrets_test.cpp
    if (row.id == ErrorId::kBadHook) continue;        // not a fault of the recipe: tests/cli/cases/hooks.test
    if (row.id == ErrorId::kBadExpression) continue;  // not about recipes: tests/cli/cases/select.test
    EXPECT_TRUE(covered.contains(std::string(row.name))) << row.name << " has no case";
  }
  EXPECT_GE(wrong, 100);
  EXPECT_GE(valid, 30);
}

}  // namespace
}  // namespace runner::schema::testing
