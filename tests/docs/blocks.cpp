#include "tests/docs/blocks.h"

#include <algorithm>
#include <sstream>
#include <stdexcept>

#include <fmt/format.h>

#include "tests/cli/command.h"
#include "tests/support/paths.h"
#include "tests/support/pattern.h"

namespace runner::docs {
namespace {

using support::Pattern;

constexpr std::string_view kFence = "```";

// Removes the comment at the end of a command and reads the directives in it.
void read_comment(TypedCommand& command) {
  static const Pattern comment(R"(\s+#\s([^#]*)$)"), exits(R"(\bexits (\d+))"), press(R"(\bCtrl-C\b)");
  const auto found = comment.find(command.text);
  if (!found) return;
  const std::string text = found->at(1);
  command.press = press.occurs_in(text);
  command.text.resize(command.text.size() - found->at(0).size());
  if (const auto code = exits.find(text)) command.exit_code = std::stoi(code->at(1));
}

// Reads the command that begins at lines[at]. Advances `at` to the line after it.
TypedCommand command_at(const std::vector<std::string>& lines, size_t& at, size_t skip, int first_line) {
  TypedCommand command;
  command.line = first_line + static_cast<int>(at);
  command.text = lines[at++].substr(skip);
  while (command.text.ends_with('\\') && at < lines.size()) command.text += '\n' + lines[at++];
  read_comment(command);
  command.shown_line = first_line + static_cast<int>(at);
  return command;
}

}  // namespace

std::vector<std::string> documents() {
  std::vector<std::string> found{"README.md", "CONTRIBUTING.md"};
  for (const auto& entry : std::filesystem::directory_iterator(support::source_path("docs"))) {
    if (entry.path().extension() == ".md") found.push_back("docs/" + entry.path().filename().string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<Block> read_blocks(const std::filesystem::path& document) {
  std::vector<Block> blocks;
  bool inside = false;
  int number = 0;
  const auto wrong = [&](const char* what) {
    throw std::runtime_error(fmt::format("{}:{}: {}", document.string(), number, what));
  };
  for (const std::string& line : lines_of(cli::testing::read_text(document))) {
    ++number;
    const size_t start = line.find_first_not_of(" >");
    const bool fence = start != std::string::npos && line.compare(start, 3, kFence) == 0;
    if (fence && start != 0) wrong("expected the fence at the start of its line");
    if (line.starts_with("~~~")) wrong("expected three backticks as the fence");
    if (fence && inside) {
      if (line != kFence) wrong("expected three backticks and nothing else at the end of a block");
      inside = false;
    } else if (fence) {
      inside = true;
      std::istringstream info(line.substr(kFence.size()));
      Block& block = blocks.emplace_back();
      block.line = number + 1;
      info >> block.language >> block.needs;
    } else if (inside) {
      blocks.back().text += line + '\n';
    }
  }
  if (inside) wrong("the block has no end");
  return blocks;
}

std::vector<TypedCommand> shell_commands(const Block& block) {
  std::vector<TypedCommand> commands;
  const std::vector<std::string> lines = lines_of(block.text);
  for (size_t at = 0; at < lines.size();) {
    if (lines[at].empty() || lines[at].starts_with('#')) {
      ++at;
    } else {
      commands.push_back(command_at(lines, at, 0, block.line));
    }
  }
  return commands;
}

std::vector<TypedCommand> console_commands(const Block& block) {
  std::vector<TypedCommand> commands;
  const std::vector<std::string> lines = lines_of(block.text);
  for (size_t at = 0; at < lines.size();) {
    if (lines[at].starts_with("$ ")) {
      commands.push_back(command_at(lines, at, 2, block.line));
    } else if (commands.empty()) {
      throw std::runtime_error(fmt::format("line {}: a console block begins with $ COMMAND", block.line));
    } else {
      commands.back().shown += lines[at++] + '\n';
    }
  }
  return commands;
}

std::string with_changes(const std::string& document, const std::vector<ShownChange>& changes) {
  const std::vector<std::string> lines = lines_of(document);
  std::string text;
  size_t at = 0;
  for (const ShownChange& change : changes) {
    while (at + 1 < static_cast<size_t>(change.line)) text += lines[at++] + '\n';
    text += change.after;
    at += lines_of(change.before).size();
  }
  while (at < lines.size()) text += lines[at++] + '\n';
  return text;
}

}  // namespace runner::docs
