// Does what a document says, block by block, as a reader would who types it (the rules are in CONTRIBUTING.md).
//
// A document has a folder of its own, with recipes/ in it and the binary under test as `runner`.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tests/cli/command.h"
#include "tests/docs/blocks.h"

namespace runner::docs {

class Follower {
 public:
  // document: its path from the root of the tree, for messages.
  explicit Follower(std::string document);

  // Runs a block.  What went wrong is added to failures().
  void follow(const Block& block);

  const std::vector<std::string>& failures() const { return failures_; }
  // Blocks that were not run because the program that they name is not here.
  const std::vector<std::string>& missing() const { return missing_; }
  // RUNNER_UPDATE=1: what the document must show instead, in its order.
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

  // Runs a command that must end with `exit_code`.
  cli::testing::Result expect(int line, const std::string& command, int exit_code);
  void fail(int line, const std::string& what);

  std::string document_;
  cli::testing::Folder folder_;
  std::vector<std::string> failures_, missing_;
  std::vector<ShownChange> changes_;
};

}  // namespace runner::docs
