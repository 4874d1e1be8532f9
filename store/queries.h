// Queries that return plain structs: the data of `ls`, `show`, `metrics`, `states`, `sql` and `diff`.
//
// Read-only. Times are Unix times in ms. NaN values are preserved. Thread safety: as for the given Store.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "store/artifacts.h"
#include "store/metric_tables.h"
#include "store/provenance.h"
#include "store/run_store.h"
#include "store/state_store.h"

namespace runner::store {

struct RunRow {
  int64_t id = 0;
  std::string uid;
  std::string name;
  RunStatus status = RunStatus::kRunning;  // kCrashed if its process no longer exists
  std::optional<int> exit_code;            // none until it ends
  std::string reason;
  std::string backend;
  int64_t num_processes = 1;
  int64_t seed = 0;
  std::string parent;  // uid; empty if it was not forked
  int64_t attempts = 0;
  int64_t created_ms = 0;
  std::optional<int64_t> trashed_ms;  // none if it is not in the trash
  int64_t started_ms = 0;             // of the newest attempt
  std::optional<int64_t> ended_ms;
  int64_t heartbeat_ms = 0;
  int64_t earlier_ms = 0;  // time that earlier attempts ran
  int64_t dropped_points = 0;
  std::string host;
  int64_t pid = 0;
  int64_t start_step = 0;                // of the newest attempt
  std::optional<int64_t> planned_steps;  // of the whole run, as planned by the newest attempt; none if unknown
  std::string cpu_features;
  std::string kernels_json;
  std::string binary_version;
  std::string summary_json;  // empty until it ends
  std::vector<std::string> tags;
};

struct AttemptRow {
  int64_t no = 0;
  int64_t start_step = 0;
  std::optional<int64_t> from_state;
  int64_t started_ms = 0;
  std::optional<int64_t> ended_ms;
  RunStatus status = RunStatus::kRunning;
  int64_t superseded_points = 0;         // points of earlier attempts that were removed when this one began
  std::optional<int64_t> planned_steps;  // of the whole run; none if unknown
};

struct EventRow {
  int64_t time_ms = 0;
  int64_t attempt = 0;
  std::string level, kind, json;
};

struct Note {
  int64_t time_ms = 0;
  std::string text;
};

// A part of a run that cannot be read.
struct Damage {
  std::string part;  // such as "recipe" or "metrics"
  std::string message;
};

// Everything recorded about a run, except metric points and checkpoint bytes.
struct RunDetails {
  RunRow run;
  std::vector<std::string> children;  // uids of the runs forked from it, oldest first
  RecipeRecord recipe;                // of the newest attempt
  std::vector<Param> params;
  std::vector<AttemptRow> attempts;
  std::vector<AttemptProvenance> provenance;  // in order of attempts
  std::vector<MetricSummary> metrics;         // sorted by name
  std::vector<StateInfo> states;              // newest first
  std::vector<ArtifactInfo> artifacts;        // oldest first
  std::vector<EventRow> events;               // oldest first
  std::vector<Note> notes;
  std::vector<Damage> damage;  // set by show_intact_parts() only
};

// Selects runs outside the trash, runs in the trash, or both. kIncluded prefers runs outside the trash.
enum class Trash { kHidden, kOnly, kIncluded };

// Returns runs, newest first, at most `limit` of them (0: all). `trash`: kHidden or kOnly. Expensive fields are not
// set: dropped points, planned steps, CPU features, kernels, version and summary. Cost: one scan of `run` and
// `attempt`.
std::vector<RunRow> list_runs(Store& store, int64_t limit = 0, Trash trash = Trash::kHidden);

// Returns how many runs have this name.
int64_t count_named(Store& store, std::string_view name, Trash trash);

// Returns the runs that `selector` names: those whose name or id matches, if it has a * or ?, else that of find_run().
// Newest first. Throws Error(kNotFound) if there are none.
std::vector<RunRow> find_runs(Store& store, std::string_view selector, Trash trash = Trash::kHidden);

// Returns the run that `selector` names: an id, a name (its newest run), a unique prefix of an id, "@last", "@last~2"
// (two runs before the last one) or "@best(eval/loss)". The latter is the run with the best value ever recorded;
// schema/recipe/metric_names.h defines which values are better. Throws Error(kNotFound) with the nearest names, or with
// the ids that an ambiguous prefix matches.
RunRow find_run(Store& store, std::string_view selector, Trash trash = Trash::kHidden);

// Returns everything recorded about a run. Throws Error(kStore) if a part is damaged.
RunDetails show_run(Store& store, const RunRow& run);
// The same, but damaged parts are left empty and reported in `damage`.
RunDetails show_intact_parts(Store& store, const RunRow& run);

// Returns the summaries of a run, sorted by name.
std::vector<MetricSummary> list_metrics(Store& store, int64_t run_id);

// Returns every recorded point, sorted by step and then in the order recorded. Throws Error(kNotFound) with the nearest
// names, or Error(kStore) naming the damaged chunk.
std::vector<Point> metric_points(Store& store, const RunRow& run, std::string_view name);

using SqlValue = std::variant<std::monostate, int64_t, double, std::string, std::vector<std::byte>>;

struct SqlResult {
  std::vector<std::string> columns;
  std::vector<std::vector<SqlValue>> rows;
};

// Runs one SELECT on a separate read-only connection. Throws Error(kUsage) if the SQL is invalid or not a SELECT. Also
// throws it if the query runs longer than `limit`, needs more than 1 GiB of memory, reads a value of more than 64 MiB,
// or returns more than 512 MiB.
SqlResult sql_query(const std::filesystem::path& path, std::string_view sql,
                    std::chrono::milliseconds limit = std::chrono::seconds(60));

}  // namespace runner::store
