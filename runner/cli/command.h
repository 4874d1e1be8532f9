// The command line as data: every command with its arguments, help text and function.
//
// The table in command_table.cpp is what is parsed, what help prints and what runs; a new command is one row there and
// one function in commands/.  Constant data, no work at start-up, thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "schema/error.h"

namespace runner::report {
class Output;
}

namespace runner::cli {

// What a command line may say.  A command reads the members that its row names.
struct Options {
  // of every command
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
  static constexpr int64_t kNotGiven = -1;  // what is given is never negative
  int64_t epochs = kNotGiven;               // 1
  int64_t limit = kNotGiven;                // all
  int64_t state = kNotGiven;                // the newest
  int64_t kills = 5;
  int64_t grace = 30;         // days
  int64_t width = kNotGiven;  // that of the terminal
  std::string from;           // a file to import
  std::string backend;        // of selftest; empty: all
  std::string format, output, model_file, shard_size, metrics_file, artifact, durations;
};

using Member =
    std::variant<bool Options::*, int64_t Options::*, std::string Options::*, std::vector<std::string> Options::*>;

// What a word names, for who completes it.
enum class Kind {
  kText,  // nothing that is known before it is typed, or a file, which the shell completes
  kRun,
  kTrashedRun,
  kRunOrMetric,  // behind the first run its metrics as well
  kMetric,       // the run being the first positional, as for kState and kArtifact
  kState,
  kArtifact,
  kRunFields,  // names of columns, parameters and metrics, separated by commas
  kSetting,    // KEY=VALUE
  kExplained,  // what explain knows besides files: error ids, error and exit
  kDetail,     // of that: a setting; behind error an id, behind exit a code
  kCommand,
  kScenario,  // of selftest
};

struct Argument {
  // A flag or option ("--epochs"), a positional ("RECIPE") or one that may be absent ("[DATA]").  A vector takes all
  // positionals that are left.
  std::string_view name;
  std::string_view value;  // of an option: "N", "PATH", or the words that it knows: "table|csv|json"
  std::string_view text;
  Member target;
  Kind kind = Kind::kText;
  std::string_view letter = {};  // "-o", where an option has such a name as well

  // "-o, --output".
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
  std::string_view examples;  // lines
  // Returns the exit code, or throws an Error.
  int (*run)(const Options&, report::Output&);
  // What --json prints when the command fails.
  std::string (*failure_document)(const Error&);
};

// Every command, in the order of the help.
std::span<const Command> commands();
// In the order of the help.
std::span<const GroupTitle> groups();
// The arguments that every command takes.
std::span<const Argument> common_arguments();

// Null: there is none.
const Command* find_command(std::string_view name);
// Throws Error(kUsage) with the nearest names.
const Command& known_command(std::string_view name);
// The option that a word names, "--db" or "--db=PATH": of this command, of any where it is null.  Null: there is none.
const Argument* find_option(const Command* command, std::string_view word);
// "--db", "--epochs": those of every command, and those of this one unless it is null.
std::vector<std::string> option_names(const Command* command);
// The words that an argument knows; none where it takes any.
std::vector<std::string> choices(const Argument& argument);

}  // namespace runner::cli
