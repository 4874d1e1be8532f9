#include "runner/cli/parse.h"

#include <map>
#include <set>

#include <gtest/gtest.h>

#include "runner/cli/commands/commands.h"
#include "runner/cli/help.h"

namespace runner::cli {
namespace {

Call parsed(const std::vector<std::string>& words) {
  Call call;
  parse(words, call);
  return call;
}

// Returns the options of a command line, which must be of this type.
template <class Own>
Own options_of(const std::vector<std::string>& words) {
  const Call call = parsed(words);
  return dynamic_cast<const Own&>(*call.options);
}

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
    EXPECT_EQ(parsed(words).command->name, "exec");
    const ExecOptions options = options_of<ExecOptions>(words);
    EXPECT_EQ(options.recipe, "r.yaml");
    EXPECT_EQ(options.overrides, (std::vector<std::string>{"seed=1", "a.b=[1,2]"}));
    EXPECT_EQ(options.db, "x.db");
    EXPECT_TRUE(options.json);
  }
}

TEST(Parse, FindsTheCommandAfterOptionsWithValues) {
  const PlanOptions options = options_of<PlanOptions>({"--epochs", "3", "plan", "r.yaml", "--batches"});
  EXPECT_EQ(options.epochs, 3);
  EXPECT_TRUE(options.batches);
}

// Options are parsed before the command is known, so whether an option has a value must not depend on the command.
TEST(Parse, OptionHasAValueInAllCommandsOrInNone) {
  for (const Command& command : commands()) {
    for (const Argument& argument : command.arguments) {
      if (argument.is_positional()) continue;
      EXPECT_EQ(find_option(&command, argument.name), &argument);
      EXPECT_EQ(find_option(&command, std::string(argument.name) + "=x"), &argument);
      EXPECT_EQ(find_option(nullptr, argument.name)->value.empty(), argument.value.empty()) << argument.name;
    }
    EXPECT_EQ(find_option(&command, "--db=x"), find_option(nullptr, "--db"));
  }
  EXPECT_EQ(find_option(find_command("ls"), "--epochs"), nullptr);
  EXPECT_EQ(find_option(nullptr, "--nothing"), nullptr);
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
  for (const Command& command : commands()) {
    for (const Argument& argument : command.arguments) {
      const auto known = kinds.find(argument.name);
      if (known == kinds.end()) continue;
      EXPECT_TRUE(known->second.contains(argument.kind)) << command.name << ' ' << argument.name;
    }
  }
}

TEST(CommandTable, ArgumentsAreMembersOfTheOptionsOfTheirCommand) {
  for (const Command& command : commands()) {
    const std::unique_ptr<Options> options = command.action.make_options();
    for (const Argument& argument : command.arguments)
      EXPECT_TRUE(argument.target.belongs_to(*options)) << command.name << ' ' << argument.name;
  }
}

TEST(Parse, KeepsUnusualValues) {
  const auto options = options_of<ExecOptions>({"exec", "r.yaml", "a=-1", "b=x=y", "c=", "d=[1, 2]", "e={f: 1}"});
  EXPECT_EQ(options.overrides, (std::vector<std::string>{"a=-1", "b=x=y", "c=", "d=[1, 2]", "e={f: 1}"}));
  EXPECT_EQ(options_of<SqlOptions>({"sql", "SELECT 1, -2 -- all"}).query, "SELECT 1, -2 -- all");
}

TEST(Parse, LastOfRepeatedOptionsWins) {
  const LsOptions options = options_of<LsOptions>({"ls", "--db", "a", "--db=b", "--json", "--json"});
  EXPECT_EQ(options.db, "b");
  EXPECT_TRUE(options.json);
}

TEST(Parse, HelpOverridesOtherOptions) {
  EXPECT_EQ(parsed({"--help"}).command->name, "help");
  EXPECT_EQ(options_of<HelpOptions>({"exec", "--bogus", "-h"}).command, "exec");
  EXPECT_EQ(parsed({"--version"}).command->name, "version");
}

TEST(Parse, CommandIsKnownIfTheRestIsInvalid) {
  Call call;
  EXPECT_THROW(parse(std::vector<std::string>{"exec", "--json"}, call), Error);
  ASSERT_NE(call.command, nullptr);
  EXPECT_EQ(call.command->name, "exec");
}

TEST(Parse, ErrorsExplainInvalidArguments) {
  EXPECT_EQ(error_of({}), "missing command; `runner --help` lists all");
  EXPECT_EQ(error_of({"exce"}), "unknown command 'exce'; did you mean exec?");
  EXPECT_EQ(error_of({"frobnicate"}), "unknown command 'frobnicate'; `runner --help` lists all");
  EXPECT_EQ(error_of({"exec"}), "exec: missing argument RECIPE; see `runner exec --help`");
  EXPECT_EQ(error_of({"explain"}), "explain: missing argument RECIPE; see `runner explain --help`");
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
  EXPECT_EQ(error_of({"ls", "--limit=-3"}), "--limit: must not be negative, got -3");
  EXPECT_EQ(error_of({"ls", "--limit", "99999999999999999999"}),
            "--limit: the number 99999999999999999999 is too large");
  EXPECT_EQ(error_of({"ls", "--color=blue"}), "--color: expected auto, always or never, got 'blue'");
}

TEST(Help, ListsEveryCommandAndOption) {
  const std::string all = program_help(false);
  for (const Command& command : commands()) {
    EXPECT_NE(all.find("\n  " + std::string(command.name)), std::string::npos) << command.name;
    const std::string text = command_help(command, false);
    EXPECT_NE(text.find("\nexamples\n  runner " + std::string(command.name)), std::string::npos) << text;
    for (const Argument& argument : command.arguments) {
      EXPECT_NE(text.find(std::string(argument.name)), std::string::npos) << command.name << ' ' << argument.name;
    }
  }
}

TEST(Help, ExamplesParse) {
  for (const Command& command : commands()) {
    std::string_view lines = command.examples;
    while (!lines.empty()) {
      const std::string_view line = lines.substr(0, lines.find('\n'));
      lines.remove_prefix(std::min(line.size() + 1, lines.size()));
      std::vector<std::string> words;
      bool quoted = false, fresh = true;
      for (const char c : line.substr(0, line.find(" >"))) {
        if (c == '"') {
          quoted = !quoted;
        } else if (c == ' ' && !quoted) {
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

TEST(Help, CommandNamesAreUnique) {
  std::set<std::string_view> names;
  for (const Command& command : commands()) EXPECT_TRUE(names.insert(command.name).second) << command.name;
}

}  // namespace
}  // namespace runner::cli
