#include "runner/cli/command.h"

#include <algorithm>

#include "schema/base/suggest.h"

namespace runner::cli {
namespace {

#define RUNNER_COMMAND_ROW(Name) &k##Name##Command,
constexpr const Command* kCommands[] = {RUNNER_COMMANDS(RUNNER_COMMAND_ROW)};
#undef RUNNER_COMMAND_ROW

constexpr GroupTitle kGroups[] = {{Group::kTrain, "train"},
                                  {Group::kRecipe, "recipes"},
                                  {Group::kStore, "runs and results"},
                                  {Group::kSystem, "this program"}};

constexpr Argument kCommonArguments[] = {
    {"--db", "PATH", "store file; default: $RUNNER_DB, or runner.db in the current folder", &Options::db},
    {"--json", "", "print one JSON document on standard output", &Options::json},
    {"--color", "auto|always|never", "when to use colours; auto: on a terminal, unless NO_COLOR is set or TERM is dumb",
     &Options::color},
};

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

const Argument* option_among(std::span<const Argument> arguments, std::string_view name) {
  const auto named = [&](const Argument& argument) {
    return !argument.is_positional() && !name.empty() && (argument.name == name || argument.letter == name);
  };
  const auto found = std::find_if(arguments.begin(), arguments.end(), named);
  return found != arguments.end() ? &*found : nullptr;
}

}  // namespace

std::span<const Command* const> commands() {
  return kCommands;
}

std::span<const GroupTitle> groups() {
  return kGroups;
}

std::span<const Argument> common_arguments() {
  return kCommonArguments;
}

const Command* find_command(std::string_view name) {
  for (const Command* command : commands()) {
    if (command->name == name) return command;
  }
  return nullptr;
}

const Command& known_command(std::string_view name) {
  if (const Command* command = find_command(name)) return *command;
  std::vector<std::string> names;
  for (const Command* command : commands()) {
    const std::vector<std::string> others = split(command->other_names, ' ');
    RUN_CHECK(std::ranges::find(others, name) == others.end(), ErrorKind::kUsage,
              "unknown command '{}'; the command is `runner {}`", name, *command->name);
    names.emplace_back(*command->name);
  }
  fail(ErrorKind::kUsage, "unknown command '{}'; {}", name,
       schema::did_you_mean(name, names, "`runner --help` lists all"));
}

const Argument* find_option(const Command* command, std::string_view word) {
  const std::string_view name = word.substr(0, word.find('='));
  if (const Argument* common = option_among(common_arguments(), name)) return common;
  if (command != nullptr) return option_among(command->arguments, name);
  for (const Command* any : commands()) {
    if (const Argument* option = option_among(any->arguments, name)) return option;
  }
  return nullptr;
}

std::vector<std::string> option_names(const Command* command) {
  std::vector<std::string> names;
  const auto own = command != nullptr ? *command->arguments : kNoArguments;
  for (const auto& arguments : {own, common_arguments()}) {
    for (const Argument& argument : arguments) {
      if (!argument.is_positional()) names.emplace_back(argument.name);
    }
  }
  return names;
}

std::vector<std::string> choices(const Argument& argument) {
  if (!argument.is_positional() && argument.value.find('|') == std::string_view::npos) return {};
  return split(argument.value, '|');
}

}  // namespace runner::cli
