// The manuals against the program: README's tour runs as it stands, docs/cli.md names everything.
#include <algorithm>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "runner/cli/command.h"
#include "runner/cli/exit_codes.h"
#include "tests/cli/command.h"

namespace runner::cli::testing {
namespace {

namespace fs = std::filesystem;

// The text between "```sh" and "```".
std::string shell_block(const std::string& text) {
  const std::string fence = "```sh\n";
  const size_t start = text.find(fence) + fence.size();
  return text.substr(start, text.find("```", start) - start);
}

TEST(Manuals, TourRunsAsItStands) {
  const Folder folder;
  fs::create_symlink(RUNNER_SOURCE_DIR "/recipes", folder.path() / "recipes");
  const std::string tour = shell_block(read_text(RUNNER_SOURCE_DIR "/README.md"));
  EXPECT_GE(std::count(tour.begin(), tour.end(), '\n'), 15);
  const Result result = run_command("set -e\n" + tour, folder.path());
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  for (const char* file : {"digits.safetensors", "digits.csv", "digits-predicted.csv", "first.yaml"}) {
    EXPECT_TRUE(fs::exists(folder.path() / file)) << file;
  }
  // The two runs that it compares are two.
  EXPECT_NE(result.out.find("\noptimizer.lr  0.005       0.002\n"), std::string::npos) << result.out;
}

// "$ COMMAND" in docs/errors.md, and below it what the program says.
TEST(Manuals, ErrorsAreShownAsTheProgramPrintsThem) {
  const Folder folder;
  fs::create_symlink(RUNNER_SOURCE_DIR "/recipes", folder.path() / "recipes");
  const std::string text = read_text(RUNNER_SOURCE_DIR "/docs/errors.md");
  int commands = 0;
  for (size_t at = text.find("\n$ "); at != std::string::npos; at = text.find("\n$ ", at + 1), ++commands) {
    const size_t end = text.find('\n', at + 1) + 1;
    const std::string command = text.substr(at + 3, end - at - 4);
    EXPECT_EQ(run_command(command, folder.path()).err, text.substr(end, text.find("```", end) - end)) << command;
  }
  EXPECT_EQ(commands, 2);
}

TEST(Manuals, NameEveryCommandAndOption) {
  const std::string text = read_text(RUNNER_SOURCE_DIR "/docs/cli.md");
  std::string missing;
  const auto expect = [&](const std::string& word, std::string_view command) {
    if (text.find(word) == std::string::npos) missing += fmt::format("{} of {}\n", word, command);
  };
  for (const Command& command : commands()) {
    expect("`" + std::string(command.name), "runner");
    for (const Argument& argument : command.arguments) expect(std::string(argument.name), command.name);
  }
  for (const Argument& argument : common_arguments()) expect(std::string(argument.name), "every command");
  EXPECT_EQ(missing, "");
}

TEST(Manuals, ExitCodesAreThoseOfTheTable) {
  const std::string text = read_text(RUNNER_SOURCE_DIR "/docs/errors.md");
  for (const ExitCode& row : exit_codes()) {
    const std::string line = fmt::format("| {} | {} | {} |\n", row.code, row.text, row.remedy);
    EXPECT_NE(text.find(line), std::string::npos) << line;
  }
}

// Links from one document to another, or to a file.
TEST(Manuals, LinksLeadSomewhere) {
  for (const char* name : {"README.md", "CONTRIBUTING.md", "docs/cli.md", "docs/errors.md"}) {
    const fs::path path = fs::path(RUNNER_SOURCE_DIR) / name;
    const std::string text = read_text(path);
    for (size_t at = text.find("]("); at != std::string::npos; at = text.find("](", at + 1)) {
      const std::string target = text.substr(at + 2, text.find_first_of(")#", at) - at - 2);
      EXPECT_TRUE(target.empty() || fs::exists(path.parent_path() / target)) << name << ": " << target;
    }
  }
}

}  // namespace
}  // namespace runner::cli::testing
