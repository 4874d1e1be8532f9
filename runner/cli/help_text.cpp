#include <algorithm>

#include <fmt/format.h>

#include "runner/cli/exit_codes.h"
#include "runner/cli/help.h"
#include "runner/report/table.h"

namespace runner::cli {
namespace {

std::string exit_code_lines() {
  std::string out;
  for (const ExitCode& row : exit_codes()) {
    out += fmt::format("{} {}{}", row.code, row.meaning, row.code == 3 ? ",\n" : row.code == 5 ? "" : ", ");
  }
  return out;
}

std::string title(std::string_view text, bool color) {
  return painted(text, Color::kBold, color);
}

std::string indented(std::string_view lines) {
  std::string out;
  while (!lines.empty()) {
    const size_t end = std::min(lines.find('\n'), lines.size());
    out += fmt::format("  {}\n", lines.substr(0, end));
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
  return out;
}

void add_arguments(report::KeyValueTable& facts, std::span<const Argument> arguments) {
  for (const Argument& argument : arguments) {
    facts.add(fmt::format("{}{}{}", argument.names(), argument.value.empty() ? "" : " ", argument.value),
              std::string(argument.text));
  }
}

}  // namespace

std::string usage_of(const Command& command) {
  std::string out(*command.name);
  for (const Argument& argument : *command.arguments) {
    if (argument.is_positional()) out += fmt::format(" {}", argument.name);
  }
  return out;
}

std::string program_help(bool color) {
  std::string out = "runner trains the model that a recipe declares, and records every run in one file.\n";
  for (const auto& [group, group_title] : groups()) {
    report::KeyValueTable facts;
    for (const Command* command : commands()) {
      if (command->group == group) facts.add(usage_of(*command), std::string(*command->summary));
    }
    out += fmt::format("\n{}\n{}", title(group_title, color), indented(facts.render()));
  }
  report::KeyValueTable facts;
  add_arguments(facts, common_arguments());
  out += fmt::format("\n{}\n{}", title("options of all commands", color), indented(facts.render()));
  out += fmt::format("\n{}\n{}", title("examples", color),
                     indented("runner exec recipes/digits.yaml\nrunner ls\nrunner show @last"));
  out += fmt::format("\n{}\n{}", title("exit codes", color), indented(exit_code_lines()));
  return out +
         "\n"
         "RUN is an id, a unique prefix of an id, a name, @last, @last~1 (the one before), or @best(METRIC).\n";
}

std::string command_help(const Command& command, bool color) {
  report::KeyValueTable facts;
  add_arguments(facts, command.arguments);
  add_arguments(facts, common_arguments());
  const std::string details = command.details->empty() ? "" : fmt::format("{}\n\n", *command.details);
  return fmt::format("{}: {}\n\nusage: runner {}\n\n{}{}\n{}\n{}\n{}\n{}",
                     title(fmt::format("runner {}", *command.name), color), *command.summary, usage_of(command),
                     details, indented(facts.render()), title("examples", color), indented(command.examples),
                     title("exit codes", color), indented(exit_code_lines()));
}

}  // namespace runner::cli
