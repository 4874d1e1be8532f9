// The command line as data: all commands with their arguments, help texts and functions.
//
// Each command has one definition, in a file of its own in commands/, and a row in RUNNER_COMMANDS; parsing, help,
// manual pages and completion are made from it. A definition that leaves out a field does not compile, a row without a
// definition does not link. Constant data without start-up cost; thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "schema/base/error.h"
#include "schema/base/required.h"

namespace runner::report {
class Output;
}

namespace runner::cli {

// Options of all commands. A command with further ones has a struct derived from it.
struct Options {
  virtual ~Options() = default;

  std::string db;  // empty: RUNNER_DB, or else runner.db in the current folder
  bool json = false;
  std::string hosts;  // of commands that train; empty: this machine
  std::string color = "auto";

  static constexpr int64_t kNotGiven = -1;  // given numbers are never negative
};

using Member =
    std::variant<bool Options::*, int64_t Options::*, std::string Options::*, std::vector<std::string> Options::*>;

// The member in which an argument is stored: of Options, or of a struct derived from it.
struct Target : Member {
  template <class Struct, class Value>
  constexpr Target(Value Struct::*member) : Member(static_cast<Value Options::*>(member)), belongs_to(is_a<Struct>) {}

  bool (*belongs_to)(const Options&);  // whether these options have the member

 private:
  template <class Struct>
  static bool is_a(const Options& options) {
    if constexpr (std::is_same_v<Struct, Options>)
      return true;
    else
      return dynamic_cast<const Struct*>(&options) != nullptr;
  }
};

// A command's function and the options that it takes.
struct Action {
  std::unique_ptr<Options> (*make_options)();
  // `options`: from make_options(). Writes data to `out`. Returns the exit code or throws an Error.
  int (*run)(const Options& options, report::Output& out);
};

template <class Own>
Own first_parameter(int (*)(const Own&, report::Output&));

// The options of `function` are the type of its first parameter.
template <auto function>
inline constexpr Action action{
    []() -> std::unique_ptr<Options> { return std::make_unique<decltype(first_parameter(function))>(); },
    [](const Options& options, report::Output& out) {
      return function(static_cast<const decltype(first_parameter(function))&>(options), out);
    }};

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
  // Value of an option: "N", "PATH", or the allowed words: "table|csv|json". Of a positional: empty, or the words.
  std::string_view value;
  std::string_view text;
  Target target;
  Kind kind = Kind::kText;
  std::string_view letter = {};  // short name of the option, such as "-o", if it has one
  int64_t at_least = 0;          // lower limit of a number

  // Names for help texts: "-o, --output".
  std::string names() const { return std::string(letter) + (letter.empty() ? "" : ", ") + std::string(name); }
  bool is_positional() const { return !name.starts_with("-"); }
  bool is_required() const { return is_positional() && !name.starts_with("["); }
};
inline constexpr std::span<const Argument> kNoArguments{};

enum class Group { kTrain, kRecipe, kStore, kSystem };

struct GroupTitle {
  Group group;
  std::string_view title;
};

struct Command {
  Required<std::string_view> name;
  Required<Group> group;
  Required<std::string_view> summary;
  Required<std::string_view> details;  // sentences, in lines of about 100 columns; may be empty
  Required<std::span<const Argument>> arguments;
  Required<std::string_view> examples;   // one per line
  std::string_view other_names = {};     // what other programs call it, for error messages; separated by blanks
  Required<bool> has_json;               // false: prints a text, so --json is an error
  bool trains_in_all_processes = false;  // if mpirun or the like starts several: they are the ranks of one run
  Required<Action> action;
  // JSON document printed if the command fails with --json.
  Required<std::string (*)(const Error&)> failure_document;
};

// All commands, in the order of the help.
std::span<const Command* const> commands();
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

// The commands in the order of the help, one row each.
#define RUNNER_COMMANDS(COMMAND) \
  COMMAND(Exec)                  \
  COMMAND(Launch)                \
  COMMAND(Resume)                \
  COMMAND(Fork)                  \
  COMMAND(Eval)                  \
  COMMAND(Predict)               \
  COMMAND(Generate)              \
  COMMAND(VerifyResume)          \
  COMMAND(Init)                  \
  COMMAND(Check)                 \
  COMMAND(Plan)                  \
  COMMAND(Parameters)            \
  COMMAND(Estimate)              \
  COMMAND(Explain)               \
  COMMAND(Schema)                \
  COMMAND(Tokenize)              \
  COMMAND(Ls)                    \
  COMMAND(Show)                  \
  COMMAND(Graphs)                \
  COMMAND(Metrics)               \
  COMMAND(Plot)                  \
  COMMAND(Watch)                 \
  COMMAND(States)                \
  COMMAND(Diff)                  \
  COMMAND(Sql)                   \
  COMMAND(Export)                \
  COMMAND(Trace)                 \
  COMMAND(Report)                \
  COMMAND(Tag)                   \
  COMMAND(Note)                  \
  COMMAND(Rm)                    \
  COMMAND(Restore)               \
  COMMAND(Gc)                    \
  COMMAND(Ingest)                \
  COMMAND(Selftest)              \
  COMMAND(Doctor)                \
  COMMAND(Help)                  \
  COMMAND(Man)                   \
  COMMAND(Completion)            \
  COMMAND(Version)

#define RUNNER_DECLARE_COMMAND(Name) extern const Command k##Name##Command;
RUNNER_COMMANDS(RUNNER_DECLARE_COMMAND)
#undef RUNNER_DECLARE_COMMAND

}  // namespace runner::cli
