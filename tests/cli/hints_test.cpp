// Follows the hints of errors and warnings. tests/cli/hints.txt has a recipe with a fault for each hint; the change
// that the hint advises must remove the message and cause no other error.
//
//   @file NAME                 a file of all cases, up to the next line that begins with @ or ==
//   == what is wrong
//   with: KEY=VALUE | …        settings of r.yaml that cause the message; KEY=null removes one of its settings
//   train: KEY=VALUE | …       like `with`, if training prints the message, not `runner check`
//   resume: KEY=VALUE | …      the message is that of resuming a run of r.yaml and `with` with these settings
//   fault: FILE | OLD | NEW    an edit of a file that causes the message; \n is a line break
//   says: TEXT                 part of the message, with the hint
//   change: KEY=VALUE | -KEY   what the hint advises: more settings, or those to leave out; a line for each alternative
//   edit: FILE | OLD | NEW     what the hint advises, if it is an edit of the recipe, the hook or the data; likewise
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

struct Edit {
  std::string file, old_text, new_text;
};

// What a hint advises.
struct Remedy {
  Settings changes;
  std::vector<Edit> edits;

  std::string text() const {
    std::string text = fmt::format("{}", fmt::join(changes, " "));
    for (const Edit& edit : edits) text += fmt::format("{}: {} -> {}", edit.file, edit.old_text, edit.new_text);
    return text;
  }
};

struct Hint {
  std::string name;
  Settings with;
  std::vector<Edit> faults;
  bool trains = false, resumes = false;
  Settings resume;
  std::string says;
  std::vector<Remedy> remedies;
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

Edit edit_of(const std::string& text) {
  Settings parts = settings_of(text);
  if (parts.size() == 2) parts.emplace_back();  // removes the old text
  EXPECT_EQ(parts.size(), 3U) << text;
  for (std::string& part : parts)
    for (size_t at = 0; (at = part.find("\\n", at)) != std::string::npos;) part.replace(at, 2, "\n");
  return {parts[0], parts[1], parts[2]};
}

Hints read_hints() {
  std::istringstream lines(support::read_text(support::source_path("tests/cli/hints.txt")));
  Hints all;
  for (std::string line; std::getline(lines, line);) {
    const auto value_of = [&](std::string_view key) { return line.substr(key.size()); };
    if (line.starts_with("== ")) {
      all.hints.push_back(
          {.name = value_of("== "), .with = {}, .faults = {}, .resume = {}, .says = {}, .remedies = {}});
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
      hint.remedies.push_back({.changes = settings_of(value_of("change: ")), .edits = {}});
    } else if (line.starts_with("fault: ")) {
      hint.faults.push_back(edit_of(value_of("fault: ")));
    } else if (line.starts_with("edit: ")) {
      hint.remedies.push_back({.changes = {}, .edits = {edit_of(value_of("edit: "))}});
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

  static void apply(const std::vector<Edit>& edits) {
    for (const Edit& edit : edits) {
      std::string text = support::read_text(edit.file);
      const size_t at = text.find(edit.old_text);
      ASSERT_NE(at, std::string::npos) << edit.file << " lacks " << edit.old_text;
      support::write_text(edit.file, text.replace(at, edit.old_text.size(), edit.new_text));
    }
  }

  Outcome outcome(const Hints& all, const Hint& hint, const Remedy& remedy) {
    for (const auto& [name, text] : all.files) support::write_text(name, text);
    apply(hint.faults);
    apply(remedy.edits);
    const Settings& changes = remedy.changes;
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
    const Outcome before = outcome(all, hint, {});
    EXPECT_NE(before.text.find(hint.says), std::string::npos) << "expected: " << hint.says << "\n" << before.text;
    EXPECT_FALSE(hint.says.empty());
    EXPECT_FALSE(hint.remedies.empty());
    for (const Remedy& remedy : hint.remedies) {
      const Outcome after = outcome(all, hint, remedy);
      EXPECT_FALSE(after.failed) << remedy.text() << "\n" << after.text;
      EXPECT_EQ(after.text.find(hint.says), std::string::npos) << remedy.text() << "\n" << after.text;
    }
  }
  EXPECT_GE(all.hints.size(), 90U);
}

}  // namespace
}  // namespace runner::cli
