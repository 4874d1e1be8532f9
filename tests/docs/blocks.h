// The fenced blocks of a Markdown document.  Thread-safe.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace runner::docs {

// README.md, CONTRIBUTING.md and docs/*.md, from the root of the tree, sorted.
std::vector<std::string> documents();

struct Block {
  int line = 0;          // of its first line, from 1
  std::string language;  // empty: none is written
  std::string needs;     // the program named behind the language, or empty
  std::string text;      // whole lines
};

// Throws std::runtime_error naming the line for a fence that is not three backticks at the start of a line, or never
// ends.
std::vector<Block> read_blocks(const std::filesystem::path& document);

// The lines of a text, without their ends.
std::vector<std::string> lines_of(const std::string& text);

// A command of a block: a line, with those that it goes on in behind a backslash.
struct TypedCommand {
  int line = 0;        // of its first line in the document
  std::string text;    // without the comment
  int exit_code = 0;   // what "# exits N" at its end says
  bool press = false;  // "# Ctrl-C": it is interrupted
  std::string shown;   // console: the lines below it
  int shown_line = 0;  // of the first of these lines in the document
};

// sh: every line but comments and empty ones is a command.
std::vector<TypedCommand> shell_commands(const Block& block);
// console: "$ COMMAND", each with what it prints below.  Throws std::runtime_error for lines above the first command.
std::vector<TypedCommand> console_commands(const Block& block);

// New text for what a document shows below a command.
struct ShownChange {
  int line = 0;        // of the first shown line in the document, from 1
  std::string before;  // whole lines
  std::string after;
};

// Returns the text of a document with changed shown lines.  `changes`: in the order of the document.
std::string with_changes(const std::string& document, const std::vector<ShownChange>& changes);

}  // namespace runner::docs
