// Reads the fenced blocks of Markdown documents. Thread-safe.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/lines.h"

namespace runner::docs {

// Returns README.md, CONTRIBUTING.md and docs/*.md, relative to the source tree, sorted.
std::vector<std::string> documents();

struct Block {
  int line = 0;          // number of its first line, from 1
  std::string language;  // empty if there is none
  std::string needs;     // program named after the language, or empty
  std::string text;      // whole lines
};

// Throws std::runtime_error with the line of a fence that is not three backticks at the start of a line or has no end.
std::vector<Block> read_blocks(const std::filesystem::path& document);

using support::lines_of;

// A command of a block: a line and its continuation lines after a backslash.
struct TypedCommand {
  int line = 0;        // number of its first line in the document
  std::string text;    // without the comment
  int exit_code = 0;   // N of "# exits N" at its end
  bool press = false;  // "# Ctrl-C": interrupt it
  std::string shown;   // in console blocks: the lines below it
  int shown_line = 0;  // number of the first of these lines in the document
};

// Returns the commands of an sh block: all lines except comments and empty lines.
std::vector<TypedCommand> shell_commands(const Block& block);
// Returns the commands of a console block: lines "$ COMMAND", each with the output shown below it. Throws
// std::runtime_error for lines before the first command.
std::vector<TypedCommand> console_commands(const Block& block);

// New text for the output that a document shows below a command.
struct ShownChange {
  int line = 0;        // number of the first output line in the document, from 1
  std::string before;  // whole lines
  std::string after;
};

// Returns the text of a document with changed output lines. `changes`: in the order of the document.
std::string with_changes(const std::string& document, const std::vector<ShownChange>& changes);

}  // namespace runner::docs
