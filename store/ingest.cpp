#include "store/ingest.h"

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "schema/base/json.h"
#include "schema/base/sha256.h"
#include "store/content.h"
#include "store/migrations.h"
#include "store/network.h"
#include "store/removal.h"
#include "store/sqlite.h"

namespace runner::store {
namespace {

constexpr int64_t kPartBytes = int64_t{64} << 20;  // of contents, copied in one transaction

// ---- which of two copies of a run is newer --------------------------------------------------------------------------

struct AttemptId {
  std::string host, boot_id;
  int64_t pid = 0, pid_start = 0, started_ms = 0;

  bool operator==(const AttemptId&) const = default;
};

struct Attempts {
  std::vector<AttemptId> ids;
  std::vector<int64_t> recorded_ms;  // time of the last heartbeat or checkpoint of each
};

Attempts read_attempts(Database& database, std::string_view schema, int64_t run_id) {
  Statement rows(database, fmt::format("SELECT host, boot_id, pid, pid_start, started_ms, max(heartbeat_ms, coalesce("
                                       "(SELECT max(created_ms) FROM {0}.state AS s WHERE s.run_id = a.run_id AND "
                                       "s.attempt = a.no), 0)) FROM {0}.attempt AS a WHERE run_id = ?1 ORDER BY no",
                                       schema));
  Attempts attempts;
  for (rows.bind(run_id); rows.step();) {
    attempts.ids.push_back({rows.text(0), rows.text(1), rows.int64(2), rows.int64(3), rows.int64(4)});
    attempts.recorded_ms.push_back(rows.int64(5));
  }
  return attempts;
}

// ---- tables -------------------------------------------------------------------------------------------------------

// A column that is not copied as it is, and the SQL expression of its new value. `s` is the row of the source.
struct Mapped {
  std::string_view column, value;
};

// A table with rows of runs: `key` is unique for each run. `$R` and `$T` are the run's ids in source and target.
struct RunTable {
  std::string_view name;
  std::vector<std::string_view> key;
  std::vector<Mapped> mapped = {};
};

constexpr std::string_view kContentId =
    "(SELECT m.id FROM main.content AS m JOIN src.content AS o ON o.digest = m.digest WHERE o.id = s.content_id)";
constexpr std::string_view kRecipeId =
    "(SELECT m.id FROM main.recipe AS m JOIN src.recipe AS o ON o.digest = m.digest WHERE o.id = s.recipe_id)";
constexpr std::string_view kEnvironmentId =
    "(SELECT m.id FROM main.environment AS m JOIN src.environment AS o ON o.digest = m.digest "
    "WHERE o.id = s.environment_id)";
// The checkpoint may be of the run itself or of its parent. If it was removed, the target's number stays.
constexpr std::string_view kFromState =
    "coalesce((SELECT m.id FROM src.state AS o JOIN src.run AS r ON r.id = o.run_id "
    "JOIN main.run AS q ON q.uid = r.uid JOIN main.state AS m ON m.run_id = q.id AND m.attempt = o.attempt AND m.step "
    "= o.step "
    "AND m.created_ms = o.created_ms AND m.manifest IS o.manifest WHERE o.id = s.from_state), "
    "(SELECT m.from_state FROM main.attempt AS m WHERE m.run_id = $T AND m.no = s.no))";
constexpr std::string_view kSummary =
    "coalesce((SELECT m.summary FROM temp.new_summary AS m WHERE m.no = s.no), s.summary)";

// In this order, for the foreign keys.
const std::vector<RunTable>& run_tables() {
  static const std::vector<RunTable> tables{
      {"attempt", {"no"}, {{"recipe_id", kRecipeId}, {"from_state", kFromState}, {"summary", kSummary}}},
      {"param", {"key"}},
      {"series", {"name"}},
      {"provenance", {"attempt"}, {{"environment_id", kEnvironmentId}}},
      {"source", {"attempt", "kind", "path"}, {{"content_id", kContentId}}},
      {"data_file", {"attempt", "key"}},
      {"device_metrics", {"attempt"}},
      {"graph", {"attempt", "no"}},
      {"state_name", {"name"}, {{"state_id", "(SELECT target FROM temp.state_map AS m WHERE m.source = s.state_id)"}}},
  };
  return tables;
}

std::vector<std::string> columns_of(Database& database, std::string_view table) {
  Statement rows(database, fmt::format("SELECT name FROM pragma_table_info('{}', 'main') WHERE name <> 'id'", table));
  std::vector<std::string> columns;
  while (rows.step()) columns.push_back(rows.text(0));
  return columns;
}

// ---- one run --------------------------------------------------------------------------------------------------------

// The part of a run that is copied.
struct Part {
  std::optional<std::vector<int64_t>> states = std::nullopt;  // those with contents; none: all that have them
  bool as_check_out = false;                                  // as check_out()
};

class RunCopy {
 public:
  // Attaches the source to the target's connection, as the schema `src`.
  RunCopy(Store& source, Store& target, const std::string& uid, Part part, const IngestProgress& progress)
      : source_(source), target_(target), database_(target.database()), part_(std::move(part)), progress_(progress) {
    database_.attach(source.database(), "src");
    Statement id(database_, "SELECT id FROM src.run WHERE uid = ?1");
    RUN_CHECK(id.bind(uid).step(), ErrorKind::kNotFound, "{} does not have run {} any more", source.path().string(),
              uid);
    from_ = id.int64(0);
    if (read_attempts(database_, "src", from_).ids.empty())
      source.database().fail_damaged(fmt::format("run {} has no attempt", uid));
    database_.exec(
        "CREATE TEMP TABLE copied_state(id INTEGER PRIMARY KEY);"
        "CREATE TEMP TABLE copied_artifact(id INTEGER PRIMARY KEY);"
        "CREATE TEMP TABLE state_map(source INTEGER PRIMARY KEY, target INTEGER);"
        "CREATE TEMP TABLE artifact_map(source INTEGER PRIMARY KEY, target INTEGER);"
        "CREATE TEMP TABLE new_summary(no INTEGER PRIMARY KEY, summary TEXT)");
    uid_ = uid;
  }
  ~RunCopy() {
    try {
      database_.exec(
          "DROP TABLE temp.copied_state; DROP TABLE temp.copied_artifact; DROP TABLE temp.state_map;"
          "DROP TABLE temp.artifact_map; DROP TABLE temp.new_summary; DETACH src");
    } catch (const Error&) {  // the connection is closed next
    }
  }
  RunCopy(const RunCopy&) = delete;
  RunCopy& operator=(const RunCopy&) = delete;

  // Copies contents, about kPartBytes. Returns whether the target has all.
  bool copy_part() {
    Transaction transaction(database_, Transaction::Kind::kWrite);
    find_target();
    IngestedRun run{uid_, ""};
    if (to_ != 0 && is_older(run)) return true;
    list_complete();
    const bool done = copy_contents(kPartBytes);
    transaction.commit();
    return done;
  }

  IngestedRun copy() {
    Transaction transaction(database_, Transaction::Kind::kWrite, /*durable=*/true);
    IngestedRun run{uid_, database_.query_text(sql("SELECT name FROM src.run WHERE id = $R"))};
    find_target();
    if (to_ != 0 && is_older(run)) return run;
    const int64_t before = database_.changed_rows();
    list_complete();
    copy_contents(INT64_MAX);
    const int64_t temporary = database_.changed_rows() - before - copied_;
    copy_run_row();
    execute(
        "INSERT INTO main.recipe(digest, hash, text, resolved, origins) "
        "SELECT digest, hash, text, resolved, origins FROM src.recipe "
        "WHERE id IN (SELECT recipe_id FROM src.attempt WHERE run_id = $R) ON CONFLICT DO NOTHING");
    execute(
        "INSERT INTO main.environment(digest, json) SELECT digest, json FROM src.environment "
        "WHERE id IN (SELECT environment_id FROM src.provenance WHERE run_id = $R) ON CONFLICT DO NOTHING");
    const int64_t mapped = map_states();
    run.states = copy_states();
    run.kept = ids("SELECT id FROM main.state WHERE run_id = $T AND NOT superseded ORDER BY id");
    const int64_t summaries = renumber_summaries();
    for (const RunTable& table : run_tables()) copy_table(table);
    copy_chunks();
    copy_events();
    const int64_t artifacts = copy_artifacts();
    if (!part_.as_check_out) copy_texts_of_users();
    if (database_.changed_rows() - before == temporary + mapped + summaries + artifacts)
      run.result = IngestResult::kUnchanged;
    else
      transaction.commit();
    return run;
  }

 private:
  // Replaces $R and $T, the run's ids in source and target.
  std::string sql(std::string_view text) const {
    std::string result(text);
    for (const auto& [name, id] : {std::pair{"$R", from_}, std::pair{"$T", to_}})
      for (size_t at = 0; (at = result.find(name, at)) != std::string::npos;) result.replace(at, 2, std::to_string(id));
    return result;
  }
  // Returns how many rows were changed.
  int64_t execute(std::string_view text) {
    const int64_t before = database_.changed_rows();
    Statement(database_, sql(text)).run();
    if (progress_) progress_();
    return database_.changed_rows() - before;
  }

  void find_target() {
    Statement id(database_, "SELECT id FROM main.run WHERE uid = ?1");
    to_ = id.bind(uid_).step() ? id.int64(0) : 0;
  }

  // Whether the target's copy was continued after the source's. Throws if both were continued.
  bool is_older(IngestedRun& run) {
    const Attempts source = read_attempts(database_, "src", from_), target = read_attempts(database_, "main", to_);
    const size_t common = std::min(source.ids.size(), target.ids.size());
    const auto differs =
        std::mismatch(source.ids.begin(), source.ids.begin() + static_cast<ptrdiff_t>(common), target.ids.begin());
    if (differs.first != source.ids.begin() + static_cast<ptrdiff_t>(common))
      throw ContinuedTwice(
          ErrorKind::kStore,
          fmt::format(
              "run {} was continued in both stores: its attempt {} is of {} in {}, and of {} in {}; fork one of "
              "them with `runner fork`, or remove one with `runner rm --purge {}`",
              uid_, differs.first - source.ids.begin() + 1, process_text(*differs.first), source_.path().string(),
              process_text(*differs.second), target_.path().string(), uid_));
    if (source.ids.size() > common) return false;
    const int64_t until = source.recorded_ms.back(), copied_until = target.recorded_ms[common - 1];
    const bool is_older = target.ids.size() > common || until < copied_until;
    if (is_older) run.result = IngestResult::kOlder;
    run.has_unseen = is_older && until > copied_until;
    return is_older;
  }

  static std::string process_text(const AttemptId& attempt) {
    return fmt::format("process {} on {}", attempt.pid, attempt.host);
  }

  // Lists checkpoints and artifacts whose contents are to be copied. Those of a spool may lack them (check_out()).
  void list_complete() {
    const std::string chosen =
        part_.states ? fmt::format("AND s.id IN ({})", fmt::join(*part_.states, ", ")) : std::string();
    execute("DELETE FROM temp.copied_state");
    execute("DELETE FROM temp.copied_artifact");
    execute(fmt::format(
        "INSERT INTO temp.copied_state SELECT s.id FROM src.state AS s WHERE s.run_id = $R {} AND NOT EXISTS (SELECT 1 "
        "FROM src.section AS x WHERE x.state_id = s.id AND x.bytes > 0 AND NOT EXISTS (SELECT 1 "
        "FROM src.section_content AS c WHERE c.state_id = x.state_id AND c.section_no = x.no))",
        chosen));
    if (part_.as_check_out) return;
    execute(
        "INSERT INTO temp.copied_artifact SELECT s.id FROM src.artifact AS s WHERE s.run_id = $R AND (s.bytes = 0 OR "
        "EXISTS (SELECT 1 FROM src.artifact_content AS c WHERE c.artifact_id = s.id))");
  }

  // Returns whether the target has all contents now.
  bool copy_contents(int64_t limit) {
    Statement rows(
        database_,
        sql("WITH used(id) AS (SELECT content_id FROM src.source WHERE run_id = $R UNION "
            "SELECT content_id FROM src.section_content WHERE state_id IN (SELECT id FROM temp.copied_state) UNION "
            "SELECT content_id FROM src.artifact_content WHERE artifact_id IN (SELECT id FROM temp.copied_artifact)) "
            "SELECT c.id, c.digest FROM used JOIN src.content AS c ON c.id = used.id "
            "WHERE NOT EXISTS (SELECT 1 FROM main.content AS m WHERE m.digest = c.digest) ORDER BY c.id"));
    std::vector<std::pair<int64_t, Sha256Digest>> missing;
    while (rows.step()) missing.emplace_back(rows.int64(0), digest_in(rows.bytes(1)));
    Statement data(database_, "SELECT data FROM src.content WHERE id = ?1");
    ContentTable contents(database_);
    for (const auto& [id, digest] : missing) {
      if (contents.new_bytes() >= limit) return false;
      RUN_ASSERT(data.bind(id).step());
      if (sha256(data.bytes(0)) != digest)
        source_.database().fail_damaged(fmt::format("contents {} of run {} fail their checksum", id, uid_));
      contents.put(digest, data.bytes(0));
      ++copied_;
      if (progress_) progress_();
    }
    return true;
  }

  Sha256Digest digest_in(Bytes bytes) const {
    Sha256Digest digest{};
    if (bytes.size() != sizeof(digest)) source_.database().fail_damaged("a digest has the wrong length");
    std::ranges::copy(bytes, std::as_writable_bytes(std::span(digest)).begin());
    return digest;
  }

  void copy_run_row() {
    constexpr std::string_view kParent =
        "(SELECT m.id FROM main.run AS m JOIN src.run AS o ON o.uid = m.uid WHERE o.id = s.parent_id)";
    if (to_ == 0) {
      execute(
          fmt::format("INSERT INTO main.run(uid, name, parent_id, seed, created_ms, attempts) SELECT uid, name, {}, "
                      "seed, created_ms, attempts FROM src.run AS s WHERE id = $R",
                      kParent));
      to_ = database_.last_insert_id();
      return;
    }
    execute(
        "UPDATE main.run SET attempts = s.attempts FROM src.run AS s "
        "WHERE main.run.id = $T AND s.id = $R AND main.run.attempts <> s.attempts");
  }

  // Makes the rows of the run equal to those of the source, and writes only those that differ.
  void copy_table(const RunTable& table) {
    const std::vector<std::string> columns = columns_of(database_, table.name);
    std::vector<std::string> values, updates, same_key;
    for (const std::string& column : columns) {
      const auto mapped = std::ranges::find(table.mapped, column, &Mapped::column);
      values.push_back(column == "run_id"             ? "$T"
                       : mapped != table.mapped.end() ? std::string(mapped->value)
                                                      : "s." + column);
      if (column != "run_id" && std::ranges::find(table.key, column) == table.key.end())
        updates.push_back(fmt::format("{0} = excluded.{0}", column));
    }
    for (const std::string_view column : table.key) same_key.push_back(fmt::format("s.{0} = o.{0}", column));
    execute(
        fmt::format("DELETE FROM main.{0} AS o WHERE run_id = $T AND NOT EXISTS (SELECT 1 FROM src.{0} AS s WHERE "
                    "s.run_id = $R AND {1})",
                    table.name, fmt::join(same_key, " AND ")));
    execute(
        fmt::format("INSERT INTO main.{0}({1}) SELECT * FROM (SELECT {2} FROM src.{0} AS s WHERE s.run_id = $R {5}"
                    "EXCEPT SELECT {1} FROM main.{0} WHERE run_id = $T) WHERE true "
                    "ON CONFLICT(run_id, {3}) DO UPDATE SET {4}",
                    table.name, fmt::join(columns, ", "), fmt::join(values, ", "), fmt::join(table.key, ", "),
                    fmt::join(updates, ", "),
                    table.name == "state_name" ? "AND s.state_id IN (SELECT source FROM temp.state_map) " : ""));
  }

  void copy_chunks() {
    const std::vector<std::string> columns = columns_of(database_, "chunk");
    std::vector<std::string> values;
    for (const std::string& column : columns) values.push_back(column == "series_id" ? "m.id" : "c." + column);
    constexpr std::string_view kSource =
        "src.series AS s JOIN main.series AS m ON m.run_id = $T AND m.name = s.name "
        "JOIN src.chunk AS c ON c.series_id = s.id WHERE s.run_id = $R";
    execute(
        fmt::format("DELETE FROM main.chunk WHERE series_id IN (SELECT id FROM main.series WHERE run_id = $T) AND "
                    "NOT EXISTS (SELECT 1 FROM {} AND m.id = main.chunk.series_id AND c.no = main.chunk.no)",
                    kSource));
    // The checksum covers every point.
    execute(
        fmt::format("INSERT OR REPLACE INTO main.chunk({}) SELECT {} FROM {} AND NOT EXISTS (SELECT 1 FROM "
                    "main.chunk AS o WHERE o.series_id = m.id AND o.no = c.no AND o.n = c.n AND o.crc = c.crc AND "
                    "o.first_step = c.first_step AND o.first_time = c.first_time)",
                    fmt::join(columns, ", "), fmt::join(values, ", "), kSource));
  }

  // Events are only ever added, and the target's copy is not newer.
  void copy_events() {
    execute(
        "INSERT INTO main.event(run_id, attempt, time_ms, level, kind, json) SELECT $T, attempt, time_ms, level, kind, "
        "json FROM src.event WHERE run_id = $R ORDER BY id LIMIT -1 OFFSET "
        "(SELECT count(*) FROM main.event WHERE run_id = $T)");
  }

  // Maps the source's checkpoints to those that the target has. Returns how many it has.
  int64_t map_states() {
    return execute(
        "INSERT INTO temp.state_map SELECT s.id, (SELECT m.id FROM main.state AS m WHERE m.run_id = $T AND "
        "m.attempt = s.attempt AND m.step = s.step AND m.created_ms = s.created_ms AND m.manifest IS s.manifest) "
        "AS found FROM src.state AS s WHERE s.run_id = $R AND found IS NOT NULL");
  }

  // Returns how many checkpoints were copied. Removes those that the source no longer has, after their contents may
  // have been used by new ones.
  int64_t copy_states() {
    execute(
        "UPDATE main.state SET superseded = s.superseded FROM src.state AS s JOIN temp.state_map AS m "
        "ON m.source = s.id WHERE main.state.id = m.target AND main.state.superseded <> s.superseded");
    const std::vector<int64_t> missing =
        ids(fmt::format("SELECT id FROM src.state WHERE run_id = $R AND id NOT IN (SELECT source FROM temp.state_map) "
                        "{} ORDER BY id",
                        part_.as_check_out ? "" : "AND id IN (SELECT id FROM temp.copied_state)"));
    for (const int64_t id : missing) copy_state(id);
    const std::vector<int64_t> kept = ids("SELECT target FROM temp.state_map");
    keep_states(target_, to_, {kept.begin(), kept.end()});
    return static_cast<int64_t>(missing.size());
  }

  // The document that `exec --json` prints has the numbers of the run's checkpoints. Returns how many documents change.
  int64_t renumber_summaries() {
    std::map<int64_t, int64_t> numbers;
    for (Statement rows(database_, "SELECT source, target FROM temp.state_map WHERE source <> target"); rows.step();)
      numbers.emplace(rows.int64(0), rows.int64(1));
    if (numbers.empty()) return 0;
    Statement rows(database_, sql("SELECT no, summary FROM src.attempt WHERE run_id = $R AND summary <> ''"));
    Statement put(database_, "INSERT INTO temp.new_summary VALUES(?1, ?2)");
    int64_t changed = 0;
    for (; rows.step(); ++changed) put.bind(rows.int64(0), renumbered(rows.text(1), numbers)).run();
    return changed;
  }

  static std::string renumbered(const std::string& summary, const std::map<int64_t, int64_t>& numbers) {
    const auto renumber = [&](const json::Value& state) {
      const auto found = numbers.find(json::integer_of(state).value_or(-1));
      return found == numbers.end() ? state : json::Value(found->second);
    };
    const json::Value document = json::parse(summary);
    json::Object members;
    for (const auto& [key, value] : json::members_of(document)) {
      if (key == "states")
        members.emplace_back(key, json::list_of(json::elements_of(value), renumber));
      else
        members.emplace_back(key, value);
    }
    return json::text(members);
  }

  // Keeps its number if no checkpoint of the target ever had it.
  void copy_state(int64_t id) {
    const std::vector<std::string> columns = columns_of(database_, "state");
    std::vector<std::string> values;
    for (const std::string& column : columns) values.push_back(column == "run_id" ? "$T" : "s." + column);
    execute(
        fmt::format("INSERT INTO main.state(id, {}) SELECT CASE WHEN s.id > coalesce((SELECT seq FROM "
                    "main.sqlite_sequence WHERE name = 'state'), 0) THEN s.id END, {} FROM src.state AS s "
                    "WHERE s.id = {}",
                    fmt::join(columns, ", "), fmt::join(values, ", "), id));
    const int64_t target = database_.last_insert_id();
    execute(fmt::format("INSERT INTO temp.state_map VALUES({}, {})", id, target));
    execute(
        fmt::format("INSERT INTO main.state_metric(state_id, name, value) SELECT {}, name, value FROM "
                    "src.state_metric WHERE state_id = {}",
                    target, id));
    execute(
        fmt::format("INSERT INTO main.section(state_id, no, name, meta, bytes) SELECT {}, no, name, meta, bytes "
                    "FROM src.section WHERE state_id = {}",
                    target, id));
    execute(
        fmt::format("INSERT INTO main.section_content(state_id, section_no, no, content_id) SELECT {}, section_no, "
                    "no, {} FROM src.section_content AS s WHERE state_id = {} AND state_id IN "
                    "(SELECT id FROM temp.copied_state)",
                    target, kContentId, id));
  }

  // Returns the changes of rows other than the target's.
  int64_t copy_artifacts() {
    const int64_t mapped = execute(
        "INSERT INTO temp.artifact_map SELECT s.id, (SELECT m.id FROM main.artifact AS m WHERE m.run_id = $T AND "
        "m.attempt = s.attempt AND m.step = s.step AND m.name = s.name AND m.created_ms = s.created_ms AND "
        "m.digest = s.digest) AS found FROM src.artifact AS s WHERE s.run_id = $R AND found IS NOT NULL");
    execute(
        "UPDATE main.artifact SET superseded = s.superseded FROM src.artifact AS s JOIN temp.artifact_map AS m "
        "ON m.source = s.id WHERE main.artifact.id = m.target AND main.artifact.superseded <> s.superseded");
    const std::vector<int64_t> missing = ids(fmt::format(
        "SELECT id FROM src.artifact WHERE run_id = $R AND id NOT IN (SELECT source FROM temp.artifact_map) "
        "{} ORDER BY id",
        part_.as_check_out ? "" : "AND id IN (SELECT id FROM temp.copied_artifact)"));
    const std::vector<std::string> columns = columns_of(database_, "artifact");
    std::vector<std::string> values;
    for (const std::string& column : columns) values.push_back(column == "run_id" ? "$T" : column);
    for (const int64_t id : missing) {
      execute(fmt::format("INSERT INTO main.artifact({}) SELECT {} FROM src.artifact WHERE id = {}",
                          fmt::join(columns, ", "), fmt::join(values, ", "), id));
      execute(
          fmt::format("INSERT INTO main.artifact_content(artifact_id, no, content_id) SELECT {}, no, {} FROM "
                      "src.artifact_content AS s WHERE artifact_id = {} AND artifact_id IN "
                      "(SELECT id FROM temp.copied_artifact)",
                      database_.last_insert_id(), kContentId, id));
    }
    return mapped;
  }

  // Users add them to any copy.
  void copy_texts_of_users() {
    execute("INSERT INTO main.tag(run_id, tag) SELECT $T, tag FROM src.tag WHERE run_id = $R ON CONFLICT DO NOTHING");
    execute(
        "INSERT INTO main.note(run_id, time_ms, text) SELECT $T, time_ms, text FROM src.note AS s WHERE run_id = $R "
        "AND "
        "NOT EXISTS (SELECT 1 FROM main.note AS m WHERE m.run_id = $T AND m.time_ms = s.time_ms AND m.text = s.text) "
        "ORDER BY id");
  }

  std::vector<int64_t> ids(std::string_view query) {
    std::vector<int64_t> found;
    for (Statement rows(database_, sql(query)); rows.step();) found.push_back(rows.int64(0));
    return found;
  }

  Store& source_;
  Store& target_;
  Database& database_;  // of the target
  const Part part_;
  const IngestProgress& progress_;
  std::string uid_;
  int64_t from_ = 0, to_ = 0;  // ids of the run
  int64_t copied_ = 0;         // contents
};

void check_layout(Store& source) {
  const int64_t version = source.database().query_int64("PRAGMA user_version"), newest = std::ssize(migrations());
  RUN_CHECK(version == newest, ErrorKind::kStore,
            "{} has schema version {}, but only version {} can be ingested; `runner gc` with --db {} converts it",
            source.path().string(), version, newest, source.path().string());
}

// Lets another process have the lock file of a store after a part was copied.
void let_others_in(const std::filesystem::path& store) {
  if (!network_file_system(store).empty()) std::this_thread::sleep_for(kLockInterval + kLockInterval / 4);
}

std::vector<std::string> runs_in(const std::filesystem::path& file) {
  Store source = Store::open(file, Access::kRead);
  check_layout(source);
  Statement rows(source.database(), "SELECT uid FROM run WHERE trashed_ms IS NULL ORDER BY id");
  std::vector<std::string> uids;
  while (rows.step()) uids.push_back(rows.text(0));
  return uids;
}

}  // namespace

std::vector<IngestedRun> ingest(const std::filesystem::path& source, const std::filesystem::path& target,
                                const IngestProgress& progress) {
  std::error_code ignored;
  RUN_CHECK(!std::filesystem::equivalent(source, target, ignored), ErrorKind::kUsage,
            "{} is the store itself; name a store to copy from", source.string());
  std::vector<IngestedRun> runs;
  for (const std::string& uid : runs_in(source)) {
    const auto copy_part = [&] {
      Store from = Store::open(source, Access::kRead), to = Store::open(target, Access::kWrite);
      to.sync_new_file();
      return RunCopy(from, to, uid, {}, progress).copy_part();
    };
    while (!copy_part()) {
      let_others_in(source);
      let_others_in(target);
    }
    Store from = Store::open(source, Access::kRead), to = Store::open(target, Access::kWrite);
    runs.push_back(RunCopy(from, to, uid, {}, progress).copy());
    to.checkpoint(1);
  }
  if (runs.empty()) return runs;
  Store from = Store::open(source, Access::kRead), to = Store::open(target, Access::kWrite);
  copy_compiled_graphs(from, to);
  to.checkpoint(1);
  return runs;
}

void check_out(const std::filesystem::path& source, const std::string& uid, const std::vector<int64_t>& states,
               CheckOut use, Store& spool) {
  const Part part{.states = states, .as_check_out = true};
  const auto copy_part = [&] {
    Store from = Store::open(source, Access::kRead);
    check_layout(from);
    return RunCopy(from, spool, uid, part, {}).copy_part();
  };
  while (!copy_part()) let_others_in(source);
  {
    Store from = Store::open(source, Access::kRead);
    RunCopy(from, spool, uid, part, {}).copy();
  }
  // Not trash_run(), which refuses a run that another process is still training.
  if (use == CheckOut::kFork)
    Statement(spool.database(), "UPDATE run SET trashed_ms = created_ms WHERE uid = ?1").bind(uid).run();
}

void copy_compiled_graphs(Store& source, Store& target) {
  Database& database = target.database();
  database.attach(source.database(), "src");
  {
    Statement copy(database,
                   "INSERT INTO main.compiled_graph SELECT * FROM src.compiled_graph AS s WHERE NOT EXISTS (SELECT 1 "
                   "FROM main.compiled_graph AS m WHERE m.key = s.key AND m.used_ms >= s.used_ms) "
                   "ON CONFLICT(key) DO UPDATE SET used_ms = excluded.used_ms");
    copy.run();
  }
  database.exec("DETACH src");
}

void continue_state_numbers(Store& store, Store& spool) {
  const int64_t used = store.database().query_int64("SELECT seq FROM sqlite_sequence WHERE name = 'state'");
  Transaction transaction(spool.database(), Transaction::Kind::kWrite);
  spool.database().exec("DELETE FROM sqlite_sequence WHERE name = 'state'");
  Statement(spool.database(), "INSERT INTO sqlite_sequence(name, seq) VALUES('state', ?1)").bind(used).run();
  transaction.commit();
}

}  // namespace runner::store
