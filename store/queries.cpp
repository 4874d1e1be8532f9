#include "store/queries.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <unordered_map>
#include <utility>

#include "schema/base/clock.h"
#include "schema/base/suggest.h"
#include "schema/base/text.h"
#include "store/content.h"
#include "store/encoded_points.h"
#include "store/process.h"
#include "store/sqlite.h"

namespace runner::store {
namespace {

// Columns read by read_run(), read_attempt() and read_long(), in this order. The columns that identify the process are
// selected only if the stored status is 'running'.
constexpr std::string_view kRunColumns =
    "run.id, run.uid, run.name, run.seed, run.attempts, run.created_ms, run.trashed_ms, parent.uid";
constexpr std::string_view kAttemptColumns =
    "a.status, a.exit_code, a.reason, a.backend, a.num_processes, a.started_ms, a.ended_ms, a.heartbeat_ms, a.host, "
    "a.pid, a.start_step, CASE a.status WHEN 'running' THEN a.boot_id END, "
    "CASE a.status WHEN 'running' THEN a.pid_namespace END, CASE a.status WHEN 'running' THEN a.pid_start END";
// Columns that are long or aggregate all attempts.
constexpr std::string_view kLongColumns =
    "(SELECT sum(dropped_points) FROM attempt WHERE run_id = run.id), a.planned_steps, a.cpu_features, a.kernels, "
    "a.binary_version, a.summary";
constexpr int kAttemptAt = 8, kLongAt = kAttemptAt + 14;

RunStatus status_of(std::string_view text) {
  for (const RunStatus status : {RunStatus::kDone, RunStatus::kFailed, RunStatus::kInterrupted}) {
    if (text == to_string(status)) return status;
  }
  return RunStatus::kRunning;
}

void read_run(RunRow& run, const Statement& row) {
  run.id = row.int64(0);
  run.uid = row.known_text(1);
  run.name = row.text(2);
  run.seed = row.int64(3);
  run.attempts = row.int64(4);
  run.created_ms = row.int64(5);
  run.trashed_ms = row.optional_int64(6);
  run.parent = row.text(7);
}

// `at`: index of the first attempt column.
void read_attempt(RunRow& run, const Statement& row, int at) {
  run.status = status_of(row.known_text(at));
  if (!row.is_null(at + 1)) run.exit_code = static_cast<int>(row.int64(at + 1));
  run.reason = row.text(at + 2);
  run.backend = row.text(at + 3);
  run.num_processes = row.int64(at + 4);
  run.started_ms = row.int64(at + 5);
  run.ended_ms = row.optional_int64(at + 6);
  run.heartbeat_ms = row.int64(at + 7);
  run.host = row.text(at + 8);
  run.pid = row.int64(at + 9);
  run.start_step = row.int64(at + 10);
  if (run.status != RunStatus::kRunning) return;
  const Process process{run.host, row.text(at + 11), row.text(at + 12), run.pid, row.int64(at + 13)};
  if (!is_running(process, run.heartbeat_ms, now_ms())) run.status = RunStatus::kCrashed;
}

void read_long(RunRow& run, const Statement& row) {
  run.dropped_points = row.int64(kLongAt);
  run.planned_steps = row.optional_int64(kLongAt + 1);
  run.cpu_features = row.text(kLongAt + 2);
  run.kernels_json = row.json(kLongAt + 3);
  run.binary_version = row.text(kLongAt + 4);
  run.summary_json = row.json(kLongAt + 5);
}

std::vector<std::string> texts(Statement& rows) {
  std::vector<std::string> result;
  while (rows.step()) result.push_back(rows.text(0));
  return result;
}

// Reads the tags of all runs, in a single query if there are more than kFew runs.
void read_tags(Database& database, std::vector<RunRow>& runs) {
  constexpr size_t kFew = 64;
  if (runs.size() <= kFew) {
    Statement tags(database, "SELECT tag FROM tag WHERE run_id = ?1 ORDER BY tag");
    for (RunRow& run : runs) run.tags = texts(tags.bind(run.id));
    return;
  }
  std::unordered_map<int64_t, std::vector<std::string>> by_run;
  for (Statement tags(database, "SELECT run_id, tag FROM tag ORDER BY run_id, tag"); tags.step();) {
    by_run[tags.int64(0)].push_back(tags.text(1));
  }
  for (RunRow& run : runs) {
    const auto found = by_run.find(run.id);
    if (found != by_run.end()) run.tags = std::move(found->second);
  }
}

// Sets RunRow::earlier_ms of resumed runs. Reads each by itself: they are few.
void read_earlier_attempts(Database& database, std::vector<RunRow>& runs) {
  Statement earlier(database,
                    "SELECT coalesce(sum(coalesce(ended_ms, heartbeat_ms) - started_ms), 0) FROM attempt "
                    "WHERE run_id = ?1 AND no < ?2");
  for (RunRow& run : runs) {
    if (run.attempts <= 1) continue;
    earlier.bind(run.id, run.attempts).step();
    run.earlier_ms = earlier.int64(0);
  }
}

// Returns the complete rows of the runs that `where` selects. `args`: values of ?1, ?2, …
template <class... Args>
std::vector<RunRow> read_runs(Database& database, std::string_view where, const Args&... args) {
  Statement rows(database, fmt::format("SELECT {}, {}, {} FROM run LEFT JOIN attempt AS a ON a.run_id = run.id AND "
                                       "a.no = run.attempts LEFT JOIN run AS parent ON parent.id = run.parent_id {}",
                                       kRunColumns, kAttemptColumns, kLongColumns, where));
  std::vector<RunRow> runs;
  for (rows.bind(args...); rows.step();) {
    RunRow& run = runs.emplace_back();
    read_run(run, rows);
    read_attempt(run, rows, kAttemptAt);
    read_long(run, rows);
  }
  read_tags(database, runs);
  read_earlier_attempts(database, runs);
  return runs;
}

std::string joined(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

[[noreturn]] void fail_ambiguous(std::string_view selector, const std::vector<RunRow>& runs) {
  constexpr size_t kNamed = 8;
  std::vector<std::string> ids;
  for (size_t i = 0; i < std::min(runs.size(), kNamed); ++i) ids.push_back(runs[i].uid);
  if (runs.size() > kNamed) ids.push_back("…");
  fail(ErrorKind::kNotFound, "{1} is ambiguous: {0} runs start with it: {2}; use a longer prefix", runs.size(),
       selector, joined(ids));
}

// Returns the run with this id, this name or this id prefix. `trashed`: "NULL" finds runs outside the trash, "NOT NULL"
// finds trashed runs.
std::optional<RunRow> find_by_name(Database& database, std::string_view selector, const char* trashed) {
  if (selector.empty()) return std::nullopt;  // the empty prefix would match every id
  for (const char* where :
       {"run.uid = ?1 AND run.trashed_ms IS {}", "run.name = ?1 AND run.trashed_ms IS {} ORDER BY run.id DESC LIMIT 1",
        "run.uid >= ?1 AND run.uid < ?1 || '{{' AND run.trashed_ms IS {} ORDER BY run.uid"}) {
    auto runs = read_runs(database, fmt::format(fmt::runtime("WHERE " + std::string(where)), trashed), selector);
    if (runs.size() > 1) fail_ambiguous(selector, runs);
    if (!runs.empty()) return std::move(runs[0]);
  }
  return std::nullopt;
}

[[noreturn]] void fail_no_run(Database& database, std::string_view selector) {
  database.check_tables({"run"});
  Statement names(database, "SELECT name FROM run UNION SELECT uid FROM run");
  fail(ErrorKind::kNotFound, "no run {} in {}; {}", selector, database.path().string(),
       schema::did_you_mean(selector, texts(names), "`runner ls` lists the runs"));
}

// Returns the run that was created `back` runs before the newest one.
RunRow find_last(Database& database, int64_t back) {
  auto runs = read_runs(database, "WHERE run.trashed_ms IS NULL ORDER BY run.id DESC LIMIT 1 OFFSET ?1", back);
  if (!runs.empty()) return std::move(runs[0]);
  database.check_tables({"run"});
  const int64_t count = database.query_int64("SELECT count(*) FROM run WHERE trashed_ms IS NULL");
  RUN_CHECK(count > 0, ErrorKind::kNotFound, "no runs in {} yet; `runner exec RECIPE` records one",
            database.path().string());
  fail(ErrorKind::kNotFound, "no run @last~{}: {} has {}", back, database.path().string(),
       count == 1 ? "one run, @last" : fmt::format("{} runs, @last to @last~{}", count, count - 1));
}

// Returns the run with the best value of a metric, or the newest of several equally good runs.
RunRow find_best(Database& database, const std::string& metric) {
  const char* order = maximizes(database, metric) ? "max_value DESC" : "min_value ASC";
  Statement best(database,
                 fmt::format("SELECT run_id FROM series JOIN run ON run.id = run_id WHERE series.name = ?1 AND "
                             "max_value IS NOT NULL AND trashed_ms IS NULL ORDER BY {}, run_id DESC LIMIT 1",
                             order));
  if (best.bind(metric).step()) return std::move(read_runs(database, "WHERE run.id = ?1", best.int64(0))[0]);
  database.check_tables({"run", "series"});
  Statement names(database,
                  "SELECT DISTINCT series.name FROM series JOIN run ON run.id = run_id WHERE trashed_ms IS NULL "
                  "ORDER BY series.name");
  const std::vector<std::string> known = texts(names);
  fail(ErrorKind::kNotFound, "no run in {} has a metric {}{}", database.path().string(), metric,
       known.empty() ? "" : "; " + schema::did_you_mean(metric, known, "there are " + joined(known)));
}

// Resolves @last, @last~N and @best(METRIC).
RunRow find_chosen(Database& database, std::string_view selector) {
  constexpr std::string_view kLast = "@last", kBest = "@best(";
  if (selector == kLast) return find_last(database, 0);
  if (selector.starts_with("@last~")) {
    const std::string_view digits = selector.substr(kLast.size() + 1);
    int64_t back = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), back);
    if (error == std::errc() && end == digits.data() + digits.size() && back >= 0) return find_last(database, back);
  }
  if (selector.starts_with(kBest) && selector.ends_with(')') && selector.size() > kBest.size() + 1) {
    return find_best(database, std::string(selector.substr(kBest.size(), selector.size() - kBest.size() - 1)));
  }
  fail(ErrorKind::kUsage, "invalid selector {}; expected @last, @last~N (N runs before the last) or @best(METRIC)",
       selector);
}

Param read_param(const Statement& row) {
  const std::string type = row.text(1);
  Param param{row.text(0), std::monostate{}};
  if (type == "bool") param.value = row.int64(2) != 0;
  if (type == "int") param.value = row.int64(2);
  if (type == "float") param.value = row.real(2);
  if (type == "text") param.value = row.text(2);
  return param;
}

std::vector<Param> read_params(Database& database, int64_t run_id) {
  Statement rows(database, "SELECT key, type, value FROM param WHERE run_id = ?1 ORDER BY key");
  std::vector<Param> params;
  for (rows.bind(run_id); rows.step();) params.push_back(read_param(rows));
  return params;
}

std::vector<std::string> read_children(Database& database, int64_t run_id) {
  Statement children(database, "SELECT uid FROM run WHERE parent_id = ?1 ORDER BY id");
  return texts(children.bind(run_id));
}

RecipeRecord read_recipe(Database& database, const RunRow& run) {
  Statement row(database,
                "SELECT hash, text, resolved, origins, digest FROM attempt "
                "JOIN recipe ON recipe.id = attempt.recipe_id WHERE attempt.run_id = ?1 AND attempt.no = ?2");
  row.bind(run.id, run.attempts).step();
  RecipeRecord recipe{row.text(0), row.text(1), row.text(2), row.text(3)};
  RUN_CHECK(equal(row.bytes(4), bytes_of(digest_of(recipe))), ErrorKind::kStore,
            "the recipe of run {} in {} is damaged: it fails its checksum; restore the store from a backup, or start a "
            "new run",
            run.uid, database.path().string());
  return recipe;
}

// The newest attempt has the status of the run. An earlier attempt without a recorded end has crashed.
std::vector<AttemptRow> read_attempts(Database& database, const RunRow& run) {
  Statement rows(database,
                 "SELECT no, start_step, from_state, started_ms, ended_ms, status, superseded_points, planned_steps "
                 "FROM attempt WHERE run_id = ?1 ORDER BY no");
  std::vector<AttemptRow> attempts;
  for (rows.bind(run.id); rows.step();) {
    const RunStatus stored = status_of(rows.text(5));
    const RunStatus status = rows.int64(0) == run.attempts   ? run.status
                             : stored == RunStatus::kRunning ? RunStatus::kCrashed
                                                             : stored;
    attempts.push_back({rows.int64(0), rows.int64(1), rows.optional_int64(2), rows.int64(3), rows.optional_int64(4),
                        status, rows.int64(6), rows.optional_int64(7)});
  }
  return attempts;
}

std::vector<EventRow> read_events(Database& database, int64_t run_id) {
  Statement rows(database, "SELECT time_ms, attempt, level, kind, json FROM event WHERE run_id = ?1 ORDER BY id");
  std::vector<EventRow> events;
  for (rows.bind(run_id); rows.step();) {
    events.push_back({rows.int64(0), rows.int64(1), rows.text(2), rows.text(3), rows.json(4)});
  }
  return events;
}

std::vector<Note> read_notes(Database& database, int64_t run_id) {
  Statement rows(database, "SELECT time_ms, text FROM note WHERE run_id = ?1 ORDER BY id");
  std::vector<Note> notes;
  for (rows.bind(run_id); rows.step();) notes.push_back({rows.int64(0), rows.text(1)});
  return notes;
}

[[noreturn]] void fail_no_metric(Store& store, const RunRow& run, std::string_view name) {
  std::vector<std::string> names;
  for (const MetricSummary& metric : list_metrics(store, run.id)) names.push_back(metric.name);
  const bool is_known = std::find(names.begin(), names.end(), name) != names.end();
  is_known ? store.database().check_tables({"chunk"}) : store.database().check_tables({"series"});
  const std::string hint =
      names.empty() ? "it has no metrics yet" : schema::did_you_mean(name, names, "it has " + joined(names));
  fail(ErrorKind::kNotFound, "run {} has no metric {}; {}", run.uid, name, hint);
}

}  // namespace

// Merges the two tables in descending order of the run id. Looking up ten thousand rows by key would dominate the cost.
std::vector<RunRow> list_runs(Store& store, int64_t limit, Trash trash) {
  RUN_ASSERT(trash != Trash::kIncluded);
  Database& database = store.database();
  Statement rows(database, fmt::format("SELECT {} FROM run LEFT JOIN run AS parent ON parent.id = run.parent_id WHERE "
                                       "run.trashed_ms IS {} ORDER BY run.id DESC LIMIT ?1",
                                       kRunColumns, trash == Trash::kOnly ? "NOT NULL" : "NULL"));
  Statement attempts(database, fmt::format("SELECT a.run_id, {} FROM attempt AS a ORDER BY a.run_id DESC, a.no DESC",
                                           kAttemptColumns));
  std::vector<RunRow> runs;
  if (limit <= 0) runs.reserve(static_cast<size_t>(database.query_int64("SELECT count(*) FROM run")));
  int64_t attempt_of = std::numeric_limits<int64_t>::max();  // run id of the current row of `attempts`
  for (rows.bind(limit > 0 ? limit : int64_t{-1}); rows.step();) {
    const int64_t id = rows.int64(0);
    while (attempt_of > id) attempt_of = attempts.step() ? attempts.int64(0) : 0;
    if (attempt_of != id) database.fail_damaged(fmt::format("run {} has no attempt", rows.text(1)));
    RunRow& run = runs.emplace_back();
    read_run(run, rows);
    read_attempt(run, attempts, 1);
  }
  if (runs.empty()) database.check_tables({"run"});
  read_tags(database, runs);
  read_earlier_attempts(database, runs);
  return runs;
}

int64_t count_named(Store& store, std::string_view name, Trash trash) {
  const char* const where[] = {" AND trashed_ms IS NULL", " AND trashed_ms IS NOT NULL", ""};  // as in Trash
  Statement count(store.database(),
                  fmt::format("SELECT count(*) FROM run WHERE name = ?1{}", where[static_cast<size_t>(trash)]));
  count.bind(name).step();
  return count.int64(0);
}

RunRow find_run(Store& store, std::string_view selector, Trash trash) {
  Database& database = store.database();
  const Transaction snapshot(database, Transaction::Kind::kRead);
  const bool thrown = trash == Trash::kOnly;
  RUN_CHECK(!thrown || !selector.starts_with('@'), ErrorKind::kUsage,
            "{} selects a run outside the trash; name a run of `runner ls --trash`", selector);
  if (selector.starts_with('@')) return find_chosen(database, selector);
  const char* const places[] = {"NULL", "NOT NULL"};
  if (auto run = find_by_name(database, selector, places[thrown])) return std::move(*run);
  auto run = find_by_name(database, selector, places[!thrown]);
  if (!run) fail_no_run(database, selector);
  RUN_CHECK(!thrown, ErrorKind::kNotFound, "run {} is not in the trash; `runner ls --trash` lists the runs in it",
            run->uid);
  if (trash == Trash::kHidden) fail_trashed(run->uid);
  return std::move(*run);
}

std::vector<RunRow> find_runs(Store& store, std::string_view selector, Trash trash) {
  if (selector.find_first_of("*?") == std::string_view::npos) return {find_run(store, selector, trash)};
  std::vector<RunRow> found;
  for (const Trash place : {Trash::kHidden, Trash::kOnly}) {
    if (trash != Trash::kIncluded && trash != place) continue;
    for (RunRow& run : list_runs(store, 0, place))
      if (matches(selector, run.name) || matches(selector, run.uid)) found.push_back(std::move(run));
  }
  RUN_CHECK(!found.empty(), ErrorKind::kNotFound, "no run {} matches {}; `runner ls{}` lists the runs",
            trash == Trash::kOnly ? "in the trash" : "in " + store.path().string(), selector,
            trash == Trash::kOnly ? " --trash" : "");
  std::ranges::sort(found, std::ranges::greater(), &RunRow::id);
  return found;
}

RunDetails show_intact_parts(Store& store, const RunRow& run) {
  Database& database = store.database();
  const Transaction snapshot(database, Transaction::Kind::kRead);
  RunDetails details;
  details.run = run;
  const auto read = [&](const char* part, auto& member, auto read_all) {
    try {
      member = read_all();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kStore) throw;
      details.damage.push_back({part, error.message()});
    }
  };
  read("forks", details.children, [&] { return read_children(database, run.id); });
  read("recipe", details.recipe, [&] { return read_recipe(database, run); });
  read("parameters", details.params, [&] { return read_params(database, run.id); });
  read("attempts", details.attempts, [&] { return read_attempts(database, run); });
  read("provenance", details.provenance, [&] { return read_provenance(store, run.id); });
  read("metrics", details.metrics, [&] { return list_metrics(store, run.id); });
  read("states", details.states, [&] { return list_states(store, run.id); });
  read("artifacts", details.artifacts, [&] { return list_artifacts(store, run.id); });
  read("events", details.events, [&] { return read_events(database, run.id); });
  read("notes", details.notes, [&] { return read_notes(database, run.id); });
  return details;
}

RunDetails show_run(Store& store, const RunRow& run) {
  RunDetails details = show_intact_parts(store, run);
  if (!details.damage.empty()) throw Error(ErrorKind::kStore, details.damage.front().message);
  return details;
}

std::vector<MetricSummary> list_metrics(Store& store, int64_t run_id) {
  std::vector<MetricSummary> metrics = read_summaries(store.database(), run_id);
  if (metrics.empty()) store.database().check_tables({"series"});
  return metrics;
}

std::vector<Point> metric_points(Store& store, const RunRow& run, std::string_view name) {
  std::vector<Point> points;
  const auto read = store.has_encoded_points() ? read_encoded_chunks : read_chunks;
  for (const Chunk& chunk : read(store.database(), run.id, std::string(name))) {
    points.insert(points.end(), chunk.points.begin(), chunk.points.end());
  }
  if (points.empty()) fail_no_metric(store, run, name);
  std::stable_sort(points.begin(), points.end(), [](const Point& a, const Point& b) { return a.step < b.step; });
  return points;
}

}  // namespace runner::store
