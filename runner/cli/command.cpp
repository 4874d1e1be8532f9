#include "runner/cli/command.h"

#include <algorithm>

#include "schema/base/suggest.h"

namespace runner::cli {
namespace {

const Argument* option_among(std::span<const Argument> arguments, std::string_view name) {
  const auto named = [&](const Argument& argument) {
    return !argument.is_positional() && !name.empty() && (argument.name == name || argument.letter == name);
  };
  const auto found = std::find_if(arguments.begin(), arguments.end(), named);
  return found != arguments.end() ? &*found : nullptr;
}

}  // namespace

const Command* find_command(std::string_view name) {
  for (const Command& command : commands()) {
    if (command.name == name) return &command;
  }
  return nullptr;
}

namespace {

// What other programs call a command.
constexpr std::pair<std::string_view, std::string_view> kOtherNames[] = {
    {"train", "exec"},     {"run", "exec"},        {"fit", "exec"},          {"launch", "exec"},
    {"start", "exec"},     {"continue", "resume"}, {"restart", "resume"},    {"branch", "fork"},
    {"test", "eval"},      {"evaluate", "eval"},   {"infer", "predict"},     {"generate", "predict"},
    {"validate", "check"}, {"lint", "check"},      {"params", "parameters"}, {"describe", "explain"},
    {"config", "explain"}, {"list", "ls"},         {"runs", "ls"},           {"info", "show"},
    {"inspect", "show"},   {"status", "show"},     {"logs", "metrics"},      {"graph", "plot"},
    {"compare", "diff"},   {"query", "sql"},       {"save", "export"},       {"checkpoints", "states"},
    {"delete", "rm"},      {"remove", "rm"},       {"clean", "gc"},          {"profile", "trace"},
    {"env", "doctor"},     {"tail", "watch"}};

}  // namespace

const Command& known_command(std::string_view name) {
  if (const Command* command = find_command(name)) return *command;
  for (const auto& [other, ours] : kOtherNames)
    if (name == other) fail(ErrorKind::kUsage, "unknown command '{}'; the command is `runner {}`", name, ours);
  std::vector<std::string> names;
  for (const Command& command : commands()) names.emplace_back(command.name);
  fail(ErrorKind::kUsage, "unknown command '{}'; {}", name,
       schema::did_you_mean(name, names, "`runner --help` lists all"));
}

const Argument* find_option(const Command* command, std::string_view word) {
  const std::string_view name = word.substr(0, word.find('='));
  if (const Argument* common = option_among(common_arguments(), name)) return common;
  if (command != nullptr) return option_among(command->arguments, name);
  for (const Command& any : commands()) {
    if (const Argument* option = option_among(any.arguments, name)) return option;
  }
  return nullptr;
}

std::vector<std::string> option_names(const Command* command) {
  std::vector<std::string> names;
  const auto own = command != nullptr ? command->arguments : std::span<const Argument>();
  for (const auto& arguments : {own, common_arguments()}) {
    for (const Argument& argument : arguments) {
      if (!argument.is_positional()) names.emplace_back(argument.name);
    }
  }
  return names;
}

std::vector<std::string> choices(const Argument& argument) {
  std::vector<std::string> words;
  if (argument.value.find('|') == std::string_view::npos) return words;
  for (size_t at = 0; at <= argument.value.size();) {
    const size_t end = std::min(argument.value.find('|', at), argument.value.size());
    words.emplace_back(argument.value.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

}  // namespace runner::cli
