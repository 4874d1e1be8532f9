// Runs cases/*.test. Each case is a separate test, named after its file.
#include <algorithm>
#include <filesystem>
#include <regex>
#include <string>

#include <gtest/gtest.h>

#include "tests/cli/case_file.h"
#include "tests/cli/command.h"
#include "tests/cli/sample_store.h"
#include "tests/support/expected_text.h"
#include "tests/support/paths.h"

namespace runner::cli::testing {
namespace {

namespace fs = std::filesystem;

// Without the lines "reading FILE: N%", which a slow machine prints.
std::string without_progress(const std::string& text) {
  static const std::regex progress("reading [^\n]*: [0-9]+%\n");
  return std::regex_replace(text, progress, "");
}

class CommandLine : public ::testing::Test {
 public:
  CommandLine(fs::path file, Case c) : file_(std::move(file)), case_(std::move(c)) {}

  void TestBody() override {
    const Folder folder;
    if (case_.store) make_sample_store(folder.path() / "runner.db");
    for (const auto& [name, text] : case_.files) write_text(folder.path() / name, text);
    for (size_t i = 0; i < case_.steps.size(); ++i) {
      const Step& step = case_.steps[i];
      Result result = run_command(step.command, folder.path());
      result.err = without_progress(result.err);
      EXPECT_EQ(result.exit_code, step.exit_code) << where(step);
      if (support::should_update()) {
        if (result.exit_code == step.exit_code) update(i, result, folder);
        continue;
      }
      check("stdout", step.out, result.out, step, folder);
      check("stderr", step.err, result.err, step, folder);
    }
  }

 private:
  std::string where(const Step& step) const {
    return case_.name + ", line " + std::to_string(step.line) + ": " + step.command;
  }
  void check(const char* what, const std::string& expected, const std::string& text, const Step& step,
             const Folder& folder) const {
    EXPECT_TRUE(matches(expected, text, folder.path().string())) << where(step) << "\n--- " << what << " is\n"
                                                                 << text << "--- expected\n"
                                                                 << expected;
  }

  // Updates the outputs of a step in the case file.
  void update(size_t i, const Result& result, const Folder& folder) const {
    const Step& step = case_.steps[i];
    const std::string out = updated(step.out, result.out, folder.path().string());
    const std::string err = updated(step.err, result.err, folder.path().string());
    if (out != step.out || err != step.err) write_text(file_, with_outputs(read_text(file_), case_.name, i, out, err));
  }

  const fs::path file_;
  const Case case_;
};

// "a folder without a store" -> "AFolderWithoutAStore".
std::string test_name(const std::string& text) {
  std::string name;
  bool upper = true;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      name += upper ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    }
    upper = std::isalnum(static_cast<unsigned char>(c)) == 0;
  }
  return name;
}

bool register_cases() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(support::source_path("tests/cli/cases")))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    for (const Case& c : read_cases(file.string())) {
      ::testing::RegisterTest(("Cases_" + file.stem().string()).c_str(), test_name(c.name).c_str(), nullptr, nullptr,
                              file.c_str(), c.steps.empty() ? 0 : c.steps.front().line,
                              [file, c]() -> ::testing::Test* { return new CommandLine(file, c); });
    }
  }
  return true;
}

[[maybe_unused]] const bool kRegistered = register_cases();

}  // namespace
}  // namespace runner::cli::testing
