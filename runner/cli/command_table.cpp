#include "runner/cli/command.h"
#include "runner/cli/commands/commands.h"
#include "runner/report/documents.h"

namespace runner::cli {
namespace {

constexpr Argument kRun{"RUN", "", "the run: an id, the start of one, a name, or @last", &Options::run};
constexpr Argument kState{"--state", "ID", "this state instead of the newest", &Options::state};

constexpr Argument kCommon[] = {
    {"--db", "PATH", "the store; default: $RUNNER_DB, or runner.db in this folder", &Options::db},
    {"--json", "", "one JSON document on standard output", &Options::json},
    {"--color", "auto|always|never", "colours; auto: on a terminal, unless NO_COLOR is set", &Options::color},
};

constexpr Argument kHelpArguments[] = {{"[COMMAND]", "", "the command to explain", &Options::topic}};
constexpr Argument kLsArguments[] = {{"--limit", "N", "the newest N only; default: all", &Options::limit}};
constexpr Argument kRunOnly[] = {kRun};
constexpr Argument kMetricsArguments[] = {
    kRun, {"[METRIC]", "", "prints every point of this metric: step, tab, value", &Options::metric}};
constexpr Argument kSqlArguments[] = {
    {"QUERY", "", "one SELECT; the views are runs, params, metrics, points, states, events", &Options::query},
    {"--format", "table|csv|json", "how to print the rows; default: table", &Options::format},
};

constexpr Command kCommands[] = {
    {"ls", Group::kStore, "list the runs, newest first", kLsArguments, "runner ls\nrunner ls --limit 10 --json", ls,
     report::failure_document},
    {"show", Group::kStore, "show everything recorded about a run", kRunOnly, "runner show @last\nrunner show digits",
     show, report::failure_document},
    {"metrics", Group::kStore, "list the metrics of a run, or every point of one", kMetricsArguments,
     "runner metrics @last\nrunner metrics digits train/loss", metrics, report::failure_document},
    {"states", Group::kStore, "list the states of a run, newest first", kRunOnly, "runner states @last", states,
     report::failure_document},
    {"sql", Group::kStore, "query the store with SQL; it cannot write", kSqlArguments,
     "runner sql \"SELECT run, name, status FROM runs\"\n"
     "runner sql \"SELECT step, value FROM points WHERE metric = 'eval/accuracy'\" --format csv",
     sql, report::failure_document},
    {"help", Group::kSystem, "explain a command", kHelpArguments, "runner help exec\nrunner exec --help", help,
     report::failure_document},
    {"version",
     Group::kSystem,
     "print the version, as --version does",
     {},
     "runner version\nrunner --version",
     version,
     report::failure_document},
};

}  // namespace

std::span<const Command> commands() {
  return kCommands;
}

std::span<const Argument> common_arguments() {
  return kCommon;
}

const Command* find_command(std::string_view name) {
  for (const Command& command : kCommands) {
    if (command.name == name) return &command;
  }
  return nullptr;
}

}  // namespace runner::cli
