// Follows the hints of errors and warnings. tests/cli/hints.txt has a recipe with a fault for each hint; the change
// that the hint advises must remove the message and cause no other error.
//
//   @file NAME                 a file of all cases, up to the next line that begins with @ or ==
//   == what is wrong
//   with: KEY=VALUE | …        settings of r.yaml that cause the message; KEY=null removes one of its settings
//   train: KEY=VALUE | …       like `with`, if training prints the message, not `runner check`
//   resume: KEY=VALUE | …      the message is that of resuming a run of r.yaml and `with` with these settings
//   says: TEXT                 part of the message, with the hint
//   change: KEY=VALUE | -KEY   what the hint advises: more settings, or those to leave out; a line for each alternative
//
// Commands run in this process.
#include <cstdio>
#include <filesystem>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "runner/cli/parse.h"
#include "runner/report/output.h"
#include "schema/base/error.h"
#include "tests/support/paths.h"
#include "tests/support/temp_folder.h"

namespace runner::cli {
namespace {

using Settings = std::vector<std::string>;

struct Hint {
  std::string name;
  Settings with;
  bool trains = false, resumes = false;
  Settings resume;
  std::string says;
  std::vector<Settings> changes;
};

struct Hints {
  std::vector<std::pair<std::string, std::string>> files;
  std::vector<Hint> hints;
};

Settings settings_of(const std::string& text) {
  Settings settings;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(" | ", at), text.size());
    settings.push_back(text.substr(at, end - at));
    at = end + 3;
  }
  return settings;
}

Hints read_hints() {
  std::istringstream lines(support::read_text(support::source_path("tests/cli/hints.txt")));
  Hints all;
  for (std::string line; std::getline(lines, line);) {
    const auto value_of = [&](std::string_view key) { return line.substr(key.size()); };
    if (line.starts_with("== ")) {
      all.hints.push_back({.name = value_of("== "), .with = {}, .resume = {}, .says = {}, .changes = {}});
    } else if (line.starts_with("@file ")) {
      all.files.emplace_back(value_of("@file "), "");
    } else if (all.hints.empty()) {
      if (!all.files.empty()) all.files.back().second += line + '\n';
    } else if (Hint& hint = all.hints.back(); line.starts_with("with: ")) {
      hint.with = settings_of(value_of("with: "));
    } else if (line.starts_with("train: ")) {
      hint.trains = true;
      hint.with = settings_of(value_of("train: "));
    } else if (line.starts_with("resume: ")) {
      hint.resumes = true;
      hint.resume = settings_of(value_of("resume: "));
    } else if (line.starts_with("says: ")) {
      hint.says = value_of("says: ");
    } else if (line.starts_with("change: ")) {
      hint.changes.push_back(settings_of(value_of("change: ")));
    } else if (!line.empty()) {
      ADD_FAILURE() << "hints.txt: cannot read the line " << line;
    }
  }
  return all;
}

std::string key_of(const std::string& setting) {
  return setting.substr(0, setting.find('='));
}

Settings changed(Settings settings, const Settings& changes) {
  for (const std::string& change : changes) {
    const bool removes = change.starts_with('-');
    const std::string key = key_of(removes ? change.substr(1) : change);
    const size_t erased = std::erase_if(settings, [&](const std::string& each) { return key_of(each) == key; });
    if (removes) {
      EXPECT_EQ(erased, 1U) << change << " removes nothing";
    } else {
      settings.push_back(change);
    }
  }
  return settings;
}

// What a command has printed, and the error that ended it.
struct Outcome {
  bool failed = false;
  std::string text;
};

class HintsTest : public ::testing::Test {
 protected:
  // Runs a command with settings after its other words.
  Outcome run(Settings words, const Settings& settings) {
    words.insert(words.end(), settings.begin(), settings.end());
    std::FILE* const file = std::tmpfile();
    report::Output out(report::ColorMode::kNever, fileno(file), fileno(file));
    Outcome outcome;
    try {
      CommandCall call;
      parse(words, call);
      outcome.failed = call.command->action->run(*call.options, out) != 0;
    } catch (const Error& error) {
      outcome.failed = true;
      outcome.text = report::error_text(error, false);
    }
    std::rewind(file);
    for (int c = 0; (c = std::fgetc(file)) != EOF;) outcome.text += static_cast<char>(c);
    std::fclose(file);
    return outcome;
  }

  Outcome check_recipe(const Settings& settings) { return run({"check", "r.yaml"}, settings); }
  Outcome train_recipe(const Settings& settings) { return run({"exec", "r.yaml", "--quiet"}, settings); }
  Outcome resume_run(const Settings& settings) { return run({"resume", "@last", "--quiet"}, settings); }

  Outcome outcome(const Hint& hint, const Settings& changes) {
    if (!hint.trains && !hint.resumes) return check_recipe(changed(hint.with, changes));
    std::filesystem::remove("runner.db");
    if (hint.trains) return train_recipe(changed(hint.with, changes));
    const Outcome trained = train_recipe(hint.with);
    EXPECT_FALSE(trained.failed) << trained.text;
    return resume_run(changed(hint.resume, changes));
  }

 private:
  const support::TempFolder folder_;
  const support::CurrentFolder current_{folder_.path()};
};

TEST_F(HintsTest, RemoveTheirMessageAndCauseNoOtherError) {
  const Hints all = read_hints();
  for (const auto& [name, text] : all.files) support::write_text(name, text);
  support::write_text("latin1.txt", "the caf\351 is open and the caf\351 is full of people who read all day long");
  const Outcome base = check_recipe({});
  ASSERT_FALSE(base.failed) << base.text;
  for (const Hint& hint : all.hints) {
    SCOPED_TRACE(hint.name);
    const Outcome before = outcome(hint, {});
    EXPECT_NE(before.text.find(hint.says), std::string::npos) << "expected: " << hint.says << "\n" << before.text;
    EXPECT_FALSE(hint.says.empty());
    EXPECT_FALSE(hint.changes.empty());
    for (const Settings& change : hint.changes) {
      const Outcome after = outcome(hint, change);
      EXPECT_FALSE(after.failed) << fmt::format("{}", fmt::join(change, " ")) << "\n" << after.text;
      EXPECT_EQ(after.text.find(hint.says), std::string::npos) << fmt::format("{}", fmt::join(change, " ")) << "\n"
                                                               << after.text;
    }
  }
  EXPECT_GE(all.hints.size(), 60U);
}

}  // namespace
}  // namespace runner::cli
