// The command line as data: all commands with their arguments, help texts and functions.
//
// The table in command_table.cpp defines parsing, help and execution. To add a command, add a row there and a function
// in commands/. Constant data without start-up cost; thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "schema/base/error.h"

namespace runner::report {
class Output;
}

namespace runner::cli {

// Values of a command line. A command reads the members that its row of the table names.
struct Options {
  // common to all commands
  std::string db;  // empty: RUNNER_DB, or else runner.db in the current folder
  bool json = false;
  std::string color = "auto";

  std::string recipe, run, other_run, metric, key, data, query, file, topic, tag, text;
  std::string where, sort, columns, tensorboard, folder, smooth, svg_file, x_axis;
  std::vector<std::string> overrides;  // key=value
  std::vector<std::string> runs;
  std::vector<std::string> words;

  bool quiet = false;
  bool batches = false;
  bool remove = false;
  bool restart = false;
  bool purge = false;
  bool trash = false;
  bool log = false;
  bool ir = false, hlo = false;
  bool metrics_report = false, upstream_durations = false;
  static constexpr int64_t kNotGiven = -1;  // given numbers are never negative
  int64_t epochs = kNotGiven;               // default: 1
  int64_t limit = kNotGiven;                // default: no limit
  int64_t state = kNotGiven;                // default: the newest
  int64_t kills = 5;
  int64_t grace = 30;         // in days
  int64_t width = kNotGiven;  // default: width of the terminal
  std::string from;           // a file to import
  std::string backend;        // for selftest; empty: all
  std::string format, output, model_file, shard_size, metrics_file, artifact, durations;
};

using Member =
    std::variant<bool Options::*, int64_t Options::*, std::string Options::*, std::vector<std::string> Options::*>;

// Kind of value of an argument, for completion.
enum class Kind {
  kText,  // free text, or a file name, which the shell completes
  kRun,
  kTrashedRun,
  kRunOrMetric,  // a run; after the first run also its metrics
  kMetric,       // of the run given as first positional; likewise kState and kArtifact
  kState,
  kArtifact,
  kRunFields,  // names of columns, parameters and metrics, separated by commas
  kSetting,    // KEY=VALUE
  kExplained,  // arguments of `explain` other than files: error ids, `error` and `exit`
  kDetail,     // second argument of `explain`: a setting; after `error` an id, after `exit` a code
  kCommand,
  kScenario,  // of selftest
};

struct Argument {
  // A flag or option ("--epochs"), a required positional ("RECIPE"), or an optional one ("[DATA]"). A vector target
  // takes all remaining positionals.
  std::string_view name;
  std::string_view value;  // value of an option: "N", "PATH", or the allowed words: "table|csv|json"
  std::string_view text;
  Member target;
  Kind kind = Kind::kText;
  std::string_view letter = {};  // short name of the option, such as "-o", if it has one

  // Names for help texts: "-o, --output".
  std::string names() const { return std::string(letter) + (letter.empty() ? "" : ", ") + std::string(name); }
  bool is_positional() const { return !name.starts_with("-"); }
  bool is_required() const { return is_positional() && !name.starts_with("["); }
};

enum class Group { kTrain, kRecipe, kStore, kSystem };

struct GroupTitle {
  Group group;
  std::string_view title;
};

struct Command {
  std::string_view name;
  Group group;
  std::string_view summary;
  std::string_view details;  // sentences, in lines of up to 100 columns; may be empty
  std::span<const Argument> arguments;
  std::string_view examples;  // one per line
  // Returns the exit code or throws an Error.
  int (*run)(const Options&, report::Output&);
  // JSON document printed if the command fails with --json.
  std::string (*failure_document)(const Error&);
};

// All commands, in the order of the help.
std::span<const Command> commands();
// In the order of the help.
std::span<const GroupTitle> groups();
// The arguments common to all commands.
std::span<const Argument> common_arguments();

// Returns null if there is no such command.
const Command* find_command(std::string_view name);
// Throws Error(kUsage) with the most similar names.
const Command& known_command(std::string_view name);
// Returns the option named by `word`, which is "--db" or "--db=PATH", or null. `command`: the command that has the
// option, or null to search all commands.
const Argument* find_option(const Command* command, std::string_view word);
// Returns names of options, such as "--db": the common ones, and those of `command` unless it is null.
std::vector<std::string> option_names(const Command* command);
// Returns the allowed words of an argument; empty if any value is allowed.
std::vector<std::string> choices(const Argument& argument);

}  // namespace runner::cli
