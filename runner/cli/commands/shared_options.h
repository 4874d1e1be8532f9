// Options and arguments that several commands have. Constant data.
#pragma once

#include <string>
#include <vector>

#include "runner/cli/command.h"

namespace runner::cli {

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
    "--state", "STATE", "state (checkpoint) of the run: its id, best, or best(METRIC); default: the newest",
    &StateOptions::state, Kind::kState};

// ---- a run's model and a data file ----------------------------------------------------------------------------------

// The file can be given as an argument or as an option; loaded_model.h has the one that was given.
struct DataOptions : StateOptions {
  std::string data_argument, data_option;
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

}  // namespace runner::cli
