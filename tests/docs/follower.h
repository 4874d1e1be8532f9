// Runs the blocks of a document in order, as a reader would type them. CONTRIBUTING.md lists the rules.
//
// Each document gets a temporary folder with recipes/. `runner` is the binary under test.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tests/cli/command.h"
#include "tests/docs/blocks.h"

namespace runner::docs {

class Follower {
 public:
  // `document`: its path from the root of the tree, for messages. `updates`: whether changed output is not a failure
  // but is added to changes().
  explicit Follower(std::string document, bool updates = false);

  // Runs a block. Adds what failed to failures().
  void follow(const Block& block);

  const std::vector<std::string>& failures() const { return failures_; }
  // Blocks that were skipped because the program that they name is not installed.
  const std::vector<std::string>& missing() const { return missing_; }
  // The new output of blocks whose output has changed, in the order of the document.
  const std::vector<ShownChange>& changes() const { return changes_; }

 private:
  void run_shell(const Block& block);
  void run_console(const Block& block);
  void compare_shown(const TypedCommand& command, const std::string& printed);
  void check_recipe(const Block& block);
  void load_hook(const Block& block);
  void ask(const Block& block);
  void parse_json(const Block& block);
  void run_python(const Block& block);
  void compare_program(const Block& block);

  // Runs a command. Adds a failure if its exit code is not `exit_code`.
  cli::testing::Result expect(int line, const std::string& command, int exit_code);
  void fail(int line, const std::string& what);

  std::string document_;
  const bool updates_;
  cli::testing::Folder folder_;
  std::vector<std::string> failures_, missing_;
  std::vector<ShownChange> changes_;
};

}  // namespace runner::docs
