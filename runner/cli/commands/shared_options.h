// Options and arguments that several commands have.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runner/cli/command.h"
#include "schema/base/error.h"

namespace runner::cli {

// Returns what can be given as an argument or as an option; empty if it was not given. `what`: for the message. Throws
// Error(kUsage) if it was given twice.
inline std::string given_once(std::string_view what, const std::string& argument, std::string_view option_name,
                              const std::string& option) {
  RUN_CHECK(argument.empty() || option.empty(), ErrorKind::kUsage,
            "{} was given twice: {} and {} {}; remove one of them", what, argument, option_name, option);
  return option.empty() ? argument : option;
}

// ---- a recipe with settings -----------------------------------------------------------------------------------------

struct RecipeOptions : Options {
  std::string recipe;
  std::vector<std::string> overrides;  // key=value
};

inline constexpr Argument kRecipeArgument{"RECIPE", "", "recipe file", &RecipeOptions::recipe};
inline constexpr Argument kOverridesArgument{"[KEY=VALUE ...]", "",
                                             "settings that override the recipe, such as optimizer.lr=1e-3",
                                             &RecipeOptions::overrides, Kind::kSetting};
inline constexpr Argument kRecipeArguments[] = {kRecipeArgument, kOverridesArgument};

// ---- a recorded run, and one of its states --------------------------------------------------------------------------

struct RunOptions : Options {
  std::string run;
};

struct StateOptions : RunOptions {
  std::string state;  // default: the newest
};

inline constexpr Argument kRunArgument{
    "RUN", "", "run: its id, a unique prefix of the id, its name, @last, @last~1, or @best(METRIC)", &RunOptions::run,
    Kind::kRun};
inline constexpr Argument kRunArguments[] = {kRunArgument};
inline constexpr Argument kStateArgument{
    "--state", "STATE", "state (checkpoint) of the run: its id, its name, best, or best(METRIC); default: the newest",
    &StateOptions::state, Kind::kState};

// ---- a run's model and a data file ----------------------------------------------------------------------------------

struct DataOptions : StateOptions {
  std::string data_argument, data_option;

  // Returns the data file; empty if none was given. Throws Error(kUsage) if it was given twice.
  std::string data() const { return given_once("the data file", data_argument, "--data", data_option); }
};

inline constexpr Argument kDataOption{"--data", "FILE", "the same as the argument DATA", &DataOptions::data_option};

// ---- others ---------------------------------------------------------------------------------------------------------

// The command that `help` or `man` describes.
struct TopicOptions : Options {
  std::string command;  // empty: the program
};

inline constexpr Argument kTopicArguments[] = {
    {"[COMMAND]", "", "command to describe", &TopicOptions::command, Kind::kCommand}};

// `target`: of the command's own options.
constexpr Argument output_argument(Target target) {
  return {"--output", "FILE", "output file; default: -, standard output", target, Kind::kText, "-o"};
}
constexpr Argument quiet_argument(Target target) {
  return {"--quiet", "", "print warnings only, no progress", target};
}

inline constexpr Argument kHostsArgument{
    "--hosts", "HOSTS",
    "machines that train, with the number of ranks of each, such as a:2,b:2; starts mpirun over ssh", &Options::hosts};

}  // namespace runner::cli
