#include "runner/cli/parse.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

#include "runner/cli/command.h"
#include "runner/cli/help.h"
#include "tests/support/paths.h"

namespace runner::cli {
namespace {

CommandCall parsed(const std::vector<std::string>& words) {
  CommandCall call;
  parse(words, call);
  return call;
}

// Returns the value of type T that a command line gives an argument of its command.
template <class T>
T value_of(std::string_view name, const std::vector<std::string>& words) {
  const CommandCall call = parsed(words);
  for (const auto& arguments : {*call.command->arguments, common_arguments()}) {
    for (const Argument& argument : arguments) {
      if (argument.name == name)
        return (*call.options).*std::get<T Options::*>(static_cast<const Member&>(argument.target));
    }
  }
  ADD_FAILURE() << *call.command->name << " has no argument " << name;
  return {};
}

using Words = std::vector<std::string>;

std::string error_of(const std::vector<std::string>& words) {
  try {
    parsed(words);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.message();
  }
  return "no error";
}

TEST(Parse, OptionsMayBeAnywhere) {
  for (const std::vector<std::string>& words : {
           std::vector<std::string>{"exec", "r.yaml", "seed=1", "a.b=[1,2]", "--json", "--db", "x.db"},
           std::vector<std::string>{"--json", "--db", "x.db", "exec", "r.yaml", "seed=1", "a.b=[1,2]"},
           std::vector<std::string>{"exec", "--db=x.db", "r.yaml", "--json", "seed=1", "a.b=[1,2]"},
       }) {
    EXPECT_EQ(*parsed(words).command->name, "exec");
    EXPECT_EQ(value_of<std::string>("RECIPE", words), "r.yaml");
    EXPECT_EQ(value_of<Words>("[KEY=VALUE ...]", words), (Words{"seed=1", "a.b=[1,2]"}));
    EXPECT_EQ(parsed(words).options->db, "x.db");
    EXPECT_TRUE(parsed(words).options->json);
  }
}

TEST(Parse, FindsTheCommandAfterOptionsWithValues) {
  const Words words{"--epochs", "3", "plan", "r.yaml", "--batches"};
  EXPECT_EQ(value_of<int64_t>("--epochs", words), 3);
  EXPECT_TRUE(value_of<bool>("--batches", words));
}

// Options are parsed before the command is known, so whether an option has a value must not depend on the command.
TEST(Parse, OptionHasAValueInAllCommandsOrInNone) {
  for (const Command* command : commands()) {
    for (const Argument& argument : *command->arguments) {
      if (argument.is_positional()) continue;
      EXPECT_EQ(find_option(command, argument.name), &argument);
      EXPECT_EQ(find_option(command, std::string(argument.name) + "=x"), &argument);
      EXPECT_EQ(find_option(nullptr, argument.name)->value.empty(), argument.value.empty()) << argument.name;
    }
    EXPECT_EQ(find_option(command, "--db=x"), find_option(nullptr, "--db"));
  }
  EXPECT_EQ(find_option(find_command("ls"), "--epochs"), nullptr);
  EXPECT_EQ(find_option(nullptr, "--nothing"), nullptr);
}

// The source of verify-resume is verify_resume.cpp.
// `--format` has other words in each command.
TEST(CommandTable, AnOptionIsSpeltTheSameInAllCommands) {
  std::map<std::string, const Argument*> options;
  for (const Command* command : commands()) {
    for (const Argument& argument : *command->arguments) {
      if (argument.is_positional()) continue;
      const Argument& first = *options.emplace(argument.name, &argument).first->second;
      EXPECT_EQ(argument.letter, first.letter) << *command->name << " " << argument.name;
      EXPECT_TRUE(argument.value == first.value || argument.name == "--format") << *command->name << argument.name;
    }
  }
}

TEST(CommandTable, EveryCommandWithADataFileHasTheOption) {
  int commands_with_data = 0;
  for (const Command* command : commands()) {
    const auto has = [&](std::string_view name) {
      return std::ranges::find(*command->arguments, name, &Argument::name) != command->arguments->end();
    };
    commands_with_data += has("[DATA]");
    EXPECT_EQ(has("[DATA]") || has("DATA"), has("--data")) << *command->name;
  }
  EXPECT_EQ(commands_with_data, 2);
}

TEST(CommandTable, EachCommandIsTheFileOfItsName) {
  std::set<std::string> rows, files;
  for (const Command* command : commands()) {
    std::string name(*command->name);
    std::ranges::replace(name, '-', '_');
    rows.insert(name + ".cpp");
  }
  for (const auto& entry : std::filesystem::directory_iterator(support::source_path("runner/cli/commands")))
    if (entry.path().extension() == ".cpp") files.insert(entry.path().filename());
  EXPECT_EQ(rows, files);
}

// Checks the kinds by the names of arguments, so that those of a new command are not forgotten.
TEST(CommandTable, ArgumentsHaveTheKindOfTheirName) {
  const std::map<std::string_view, std::set<Kind>> kinds{{"RUN", {Kind::kRun}},
                                                         {"A", {Kind::kRun}},
                                                         {"B", {Kind::kRun}},
                                                         {"RUN ...", {Kind::kRun, Kind::kTrashedRun}},
                                                         {"RUN ... METRIC", {Kind::kRunOrMetric}},
                                                         {"[METRIC]", {Kind::kMetric}},
                                                         {"[KEY=VALUE ...]", {Kind::kSetting}},
                                                         {"--state", {Kind::kState}}};
  for (const Command* command : commands()) {
    for (const Argument& argument : *command->arguments) {
      const auto known = kinds.find(argument.name);
      if (known == kinds.end()) continue;
      EXPECT_TRUE(known->second.contains(argument.kind)) << *command->name << ' ' << argument.name;
    }
  }
}

TEST(CommandTable, ArgumentsAreMembersOfTheOptionsOfTheirCommand) {
  for (const Command* command : commands()) {
    const std::unique_ptr<Options> options = command->action->make_options();
    for (const Argument& argument : *command->arguments)
      EXPECT_TRUE(argument.target.belongs_to(*options)) << *command->name << ' ' << argument.name;
  }
}

TEST(Parse, KeepsUnusualValues) {
  const Words settings{"a=-1", "b=x=y", "c=", "d=[1, 2]", "e={f: 1}"};
  Words words{"exec", "r.yaml"};
  words.insert(words.end(), settings.begin(), settings.end());
  EXPECT_EQ(value_of<Words>("[KEY=VALUE ...]", words), settings);
  EXPECT_EQ(value_of<std::string>("QUERY", {"sql", "SELECT 1, -2 -- all"}), "SELECT 1, -2 -- all");
}

TEST(Parse, LastOfRepeatedOptionsWins) {
  const Words words{"ls", "--limit", "1", "--db", "a", "--db=b", "--limit=2", "--json", "--json"};
  EXPECT_EQ(value_of<int64_t>("--limit", words), 2);
  EXPECT_EQ(parsed(words).options->db, "b");
  EXPECT_TRUE(parsed(words).options->json);
}

TEST(Parse, HelpOverridesOtherOptions) {
  EXPECT_EQ(*parsed({"--help"}).command->name, "help");
  EXPECT_EQ(value_of<std::string>("[COMMAND]", {"exec", "--bogus", "-h"}), "exec");
  EXPECT_EQ(*parsed({"--version"}).command->name, "version");
}

TEST(Parse, CommandIsKnownIfTheRestIsInvalid) {
  CommandCall call;
  EXPECT_THROW(parse(std::vector<std::string>{"exec", "--json"}, call), Error);
  ASSERT_NE(call.command, nullptr);
  EXPECT_EQ(*call.command->name, "exec");
}

TEST(Parse, ErrorsExplainInvalidArguments) {
  EXPECT_EQ(error_of({}), "missing command; `runner --help` lists all");
  EXPECT_EQ(error_of({"exce"}), "unknown command 'exce'; did you mean exec?");
  EXPECT_EQ(error_of({"frobnicate"}), "unknown command 'frobnicate'; `runner --help` lists all");
  EXPECT_EQ(error_of({"exec"}), "exec: missing argument RECIPE; see `runner exec --help`");
  EXPECT_EQ(error_of({"check"}), "check: missing argument RECIPE; see `runner check --help`");
  EXPECT_EQ(error_of({"fork"}), "fork: missing argument RUN; see `runner fork --help`");
  EXPECT_EQ(error_of({"ls", "--jsno"}), "ls: unknown option --jsno; did you mean --json?");
  EXPECT_EQ(error_of({"plan", "r.yaml", "--epoch=3"}), "plan: unknown option --epoch; did you mean --epochs?");
  EXPECT_EQ(error_of({"ls", "--frobnicate"}), "ls: unknown option --frobnicate; see `runner ls --help`");
  EXPECT_EQ(error_of({"ls", "-x"}), "ls: unknown option -x; see `runner ls --help`");
  EXPECT_EQ(error_of({"show", "a", "b"}), "show: unexpected argument 'b'; see `runner show --help`");
  EXPECT_EQ(error_of({"ls", "--limit"}), "--limit: expected a value; see `runner ls --help`");
  EXPECT_EQ(error_of({"ls", "--limit", "--json"}), "--limit: expected a value; see `runner ls --help`");
  EXPECT_EQ(error_of({"ls", "--limit", "x"}), "--limit: expected a whole number, got 'x'");
  EXPECT_EQ(error_of({"ls", "--limit", "3x"}), "--limit: expected a whole number, got '3x'");
  EXPECT_EQ(error_of({"ls", "--limit=-3"}), "--limit: expected at least 1, got -3");
  EXPECT_EQ(error_of({"gc", "--grace=-1"}), "--grace: expected at least 0, got -1");
  EXPECT_EQ(error_of({"ls", "--limit", "99999999999999999999"}),
            "--limit: the number 99999999999999999999 is too large");
  EXPECT_EQ(error_of({"ls", "--color=blue"}), "--color: expected auto, always or never, got 'blue'");
}

TEST(Help, ListsEveryCommandAndOption) {
  const std::string all = program_help(false);
  for (const Command* command : commands()) {
    EXPECT_NE(all.find("\n  " + std::string(*command->name)), std::string::npos) << *command->name;
    const std::string text = command_help(*command, false);
    EXPECT_NE(text.find("\nexamples\n  runner " + std::string(*command->name)), std::string::npos) << text;
    for (const Argument& argument : *command->arguments) {
      EXPECT_NE(text.find(std::string(argument.name)), std::string::npos) << *command->name << ' ' << argument.name;
    }
  }
}

TEST(Help, ExamplesParse) {
  for (const Command* command : commands()) {
    std::string_view lines = command->examples;
    while (!lines.empty()) {
      const std::string_view line = lines.substr(0, lines.find('\n'));
      lines.remove_prefix(std::min(line.size() + 1, lines.size()));
      std::vector<std::string> words;
      char quote = '\0';
      bool fresh = true;
      for (const char c : line.substr(0, line.find(" >"))) {
        if (c == quote || (quote == '\0' && (c == '"' || c == '\''))) {
          quote = quote == '\0' ? c : '\0';
        } else if (c == ' ' && quote == '\0') {
          fresh = true;
        } else {
          if (fresh) words.emplace_back();
          fresh = false;
          words.back() += c;
        }
      }
      ASSERT_EQ(words.front(), "runner") << line;
      words.erase(words.begin());
      EXPECT_EQ(error_of(words), "no error") << line;
    }
  }
}

TEST(CommandTable, NamesAreUniqueAndSoAreThoseOfOtherPrograms) {
  std::set<std::string> names;
  for (const Command* command : commands()) EXPECT_TRUE(names.insert(std::string(*command->name)).second);
  for (const Command* command : commands()) {
    std::istringstream words{std::string(command->other_names)};
    for (std::string word; words >> word;) {
      EXPECT_TRUE(names.insert(word).second) << word;
      EXPECT_EQ(error_of({word}),
                fmt::format("unknown command '{}'; the command is `runner {}`", word, *command->name));
    }
  }
}

TEST(Parse, TextsHaveNoJson) {
  for (const Command* command : commands()) {
    if (command->has_json) continue;
    EXPECT_EQ(error_of({std::string(*command->name), "--json"}),
              fmt::format("{} prints a text, not a JSON document; omit --json", *command->name));
  }
}

}  // namespace
}  // namespace runner::cli
