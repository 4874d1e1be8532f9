// Questions to the store, answered with plain structs: what `ls`, `show`, `metrics`, `states`, `sql` and `diff` print.
//
// Nothing here writes.  Times are milliseconds since 1970, UTC.  A NaN comes back as NaN.
// Thread safety: as the Store given.
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
  RunStatus status = RunStatus::kRunning;  // kCrashed where the process is gone
  std::optional<int> exit_code;            // none: not ended
  std::string reason;
  std::string backend;
  int64_t num_processes = 1;
  int64_t seed = 0;
  std::string parent;  // uid; empty: none
  int64_t attempts = 0;
  int64_t created_ms = 0;
  std::optional<int64_t> trashed_ms;  // none: it is not in the trash
  int64_t started_ms = 0;             // of the newest attempt
  std::optional<int64_t> ended_ms;
  int64_t heartbeat_ms = 0;
  int64_t dropped_points = 0;
  std::string host;
  int64_t pid = 0;
  int64_t start_step = 0;                // of the newest attempt
  std::optional<int64_t> planned_steps;  // of the run, as the newest attempt meant it; none: not known
  std::string cpu_features;
  std::string kernels_json;
  std::string binary_version;
  std::string summary_json;  // empty: not ended
  std::vector<std::string> tags;
};

struct AttemptRow {
  int64_t no = 0;
  int64_t start_step = 0;
  std::optional<int64_t> from_state;
  int64_t started_ms = 0;
  std::optional<int64_t> ended_ms;
  RunStatus status = RunStatus::kRunning;
  int64_t superseded_points = 0;         // of older attempts, taken back when this one began
  std::optional<int64_t> planned_steps;  // of the whole run; none: not known
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

// A part of a run's record that cannot be read.
struct Damage {
  std::string part;  // "recipe", "metrics"
  std::string message;
};

// Everything recorded about one run, points and section bytes aside.
struct RunDetails {
  RunRow run;
  std::vector<std::string> children;  // ids of the runs that were forked from it, oldest first
  RecipeRecord recipe;                // of the newest attempt
  std::vector<Param> params;
  std::vector<AttemptRow> attempts;
  std::vector<AttemptProvenance> provenance;  // by attempt
  std::vector<MetricSummary> metrics;         // by name
  std::vector<StateInfo> states;              // newest first
  std::vector<ArtifactInfo> artifacts;        // oldest first
  std::vector<EventRow> events;               // oldest first
  std::vector<Note> notes;
  std::vector<Damage> damage;  // empty, but of what_is_left()
};

// Which runs are looked at: those that are not in the trash, those that are, or all, those in the trash last.
enum class Trash { kHidden, kOnly, kIncluded };

// Newest first; at most `limit` (0: all).  Without what costs time: dropped points, planned steps, CPU features,
// kernels, version and summary.  Both tables are read through once.
std::vector<RunRow> list_runs(Store& store, int64_t limit = 0, Trash trash = Trash::kHidden);

// The run that `selector` names: an id, a name (its newest run), a unique prefix of an id, "@last", "@last~2" (two runs
// before it) or "@best(eval/loss)" (the best value that any run ever had; schema/metric_names.h says what is better).
// Throws Error(kNotFound) with the nearest names, or with the ids that an ambiguous prefix fits.
RunRow find_run(Store& store, std::string_view selector, Trash trash = Trash::kHidden);

// Throws Error(kStore) where a part is damaged, such as a recipe that is not what was stored.
RunDetails show_run(Store& store, const RunRow& run);
// The same, but parts that are damaged are empty, and told in `damage`.
RunDetails what_is_left(Store& store, const RunRow& run);

// By name.
std::vector<MetricSummary> list_metrics(Store& store, int64_t run_id);

// Every recorded point, by step, then in the order recorded.  Throws Error(kNotFound) with the nearest names, or
// Error(kStore) that names the damaged chunk.
std::vector<Point> metric_points(Store& store, const RunRow& run, std::string_view name);

using SqlValue = std::variant<std::monostate, int64_t, double, std::string, std::vector<std::byte>>;

struct SqlResult {
  std::vector<std::string> columns;
  std::vector<std::vector<SqlValue>> rows;
};

// Runs one SELECT on a connection of its own that can only read.  Throws Error(kUsage) for wrong SQL, anything but a
// SELECT, one that takes longer than `limit` or more than 1 GiB of memory, a value of more than 64 MiB, or a result of
// more than 512 MiB.
SqlResult sql_query(const std::filesystem::path& path, std::string_view sql,
                    std::chrono::milliseconds limit = std::chrono::seconds(60));

}  // namespace runner::store
