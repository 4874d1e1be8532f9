// Every key at the ends of its range, alone and in pairs: a recipe is planned and estimated, or refused with an error.
//
// A child process with a limit of memory does the work, so that an allocation fails instead of filling the machine, and
// a signal is seen.
#include <cstdlib>
#include <new>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner/report/plan_text.h"
#include "runner/train/loop/session.h"
#include "runner/train/loop/step_estimate.h"
#include "schema/base/error.h"
#include "schema/recipe/field_table.h"
#include "schema/recipe/recipe_reader.h"
#include "tests/support/sanitizers.h"

namespace runner::cli {
namespace {

using schema::Field;
using schema::FieldType;

const std::string kBase =
    "schema_version: 1\nname: extreme\nmodel: {type: mlp, hidden: [3]}\noptimizer: {type: sgd, lr: 0.1}\n"
    "data: {train: {format: synthetic, samples: 7, features: [2], classes: 2}, batch_size: 4}\ntrain: {epochs: 2}\n";
const std::string kOther =
    "schema_version: 1\nname: extreme\nmodel: {type: mlp, hidden: [3]}\noptimizer: {type: adam, lr: 0.1}\n"
    "data: {train: {format: synthetic, samples: 7, features: [2], classes: 2}, batch_size: 4, split: {eval: 0.3}}\n"
    "train: {epochs: 2}\ngradient_accumulation_steps: 2\nnum_processes: 2\neval: {every: 50 %}\nbackend: tpu\n";

std::vector<std::string> extremes_of(const Field& field) {
  switch (field.type) {
    case FieldType::kInteger:
      return field.is_list
                 ? std::vector<std::string>{"[" + std::to_string(field.range.least) + "]",
                                            "[" + std::to_string(field.range.most) + "]"}
                 : std::vector<std::string>{std::to_string(field.range.least), std::to_string(field.range.most)};
    case FieldType::kNumber: return {"0", "1e-300", "1", "1e300"};
    case FieldType::kLength:
      return {"1 step", "2147483647 steps", "2147483647 epochs", "0.01 epochs", "1 sample", "100 %"};
    case FieldType::kSize: return {"1 B", "1000000 TiB"};
    case FieldType::kBoolean: return {"true", "false"};
    case FieldType::kChoice: {
      std::vector<std::string> names;
      for (const schema::Choice& choice : field.choices) names.emplace_back(choice.name);
      return names;
    }
    default: return {};
  }
}

// Settings of all keys outside lists of sections.
std::vector<std::string> settings() {
  std::set<std::string> all;
  for (const Field& field : schema::fields()) {
    const std::string path = field.path();
    if (path.find("[]") != std::string::npos || path.find('*') != std::string::npos) continue;
    for (const std::string& value : extremes_of(field)) all.insert(path + "=" + value);
  }
  return {all.begin(), all.end()};
}

std::string words(const std::vector<std::string>& arguments) {
  std::string text;
  for (const std::string& argument : arguments) text += argument + ' ';
  return text;
}

// Returns whether the recipe is valid. The program reports memory that runs out and threads that cannot start; any
// other exception is a bug.
bool estimate(const std::string& recipe, const std::vector<std::string>& arguments) {
  try {
    const schema::ReadResult read = schema::read_recipe_text(recipe, "r.yaml", arguments);
    const train::Session session(read.recipe, nullptr);
    session.plan_warnings();
    const train::StepEstimate steps =
        train::estimate_steps(read.recipe, session.data, session.plan, *session.device, nullptr);
    EXPECT_FALSE(report::plan_text(session, {.steps = steps}, 80, false).empty()) << words(arguments);
    return true;
  } catch (const Error& error) {
    EXPECT_FALSE(error.message().empty()) << words(arguments);
  } catch (const std::bad_alloc&) {
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), std::errc::resource_unavailable_try_again) << words(arguments);
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what() << " in " << words(arguments);
  }
  return false;
}

// Estimates the recipes in a child, which writes the number of the current one to `at`. A failed expectation of the
// child fails the test.
void expect_no_bug(const std::string& recipe, const std::vector<std::vector<std::string>>& calls, size_t least_valid) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit memory{rlim_t{3} << 30, rlim_t{3} << 30};
    if (!support::kSanitized) ::setrlimit(RLIMIT_AS, &memory);
    size_t valid = 0;
    for (size_t i = 0; i < calls.size(); ++i) {
      if (::write(ends[1], &i, sizeof i) != sizeof i) ::_exit(2);
      valid += estimate(recipe, calls[i]);
    }
    EXPECT_GE(valid, least_valid) << "valid recipes";
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  ::close(ends[1]);
  size_t at = 0;
  for (size_t next = 0; ::read(ends[0], &next, sizeof next) == sizeof next;) at = next;
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status) << " in " << words(calls[at]);
  EXPECT_EQ(WEXITSTATUS(status), 0) << "failed expectations of the child are above";
}

TEST(ExtremeRecipes, SingleKeys) {
  std::vector<std::vector<std::string>> calls;
  for (const std::string& setting : settings()) calls.push_back({setting});
  EXPECT_GT(calls.size(), 300U);
  expect_no_bug(kBase, calls, 50);
  expect_no_bug(kOther, calls, 50);
}

// One pair in 61, always the same; with RUNNER_EXHAUSTIVE=1 every pair (target extreme_recipes).
TEST(ExtremeRecipes, PairsOfKeys) {
  const std::vector<std::string> all = settings();
  const size_t stride = std::getenv("RUNNER_EXHAUSTIVE") != nullptr ? 1 : 61;
  std::vector<std::vector<std::string>> calls;
  size_t pair = 0;
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t j = i + 1; j < all.size(); ++j)
      if (pair++ % stride == 0) calls.push_back({all[i], all[j]});
  expect_no_bug(kBase, calls, calls.size() / 50);
  expect_no_bug(kOther, calls, calls.size() / 50);
}

}  // namespace
}  // namespace runner::cli
