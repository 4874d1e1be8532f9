#include "store/ingest.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <map>
#include <memory>
#include <set>
#include <thread>

#include <sqlite3.h>

#include "store/artifacts.h"
#include "store/compiled_graphs.h"
#include "store/device_report.h"
#include "store/layout.h"
#include "store/migrations.h"
#include "store/removal.h"
#include "store/run_writer.h"
#include "tests/store/network_store.h"
#include "tests/store/sample_values.h"
#include "tests/support/full_disk.h"

namespace runner::store {
namespace {

// How the rows of a run are read from each table, without numbers that differ between stores. $R is the run's id. A
// table without a query has no rows of runs.
const std::map<std::string, std::string>& row_queries() {
  static const std::map<std::string, std::string> queries{
      {"run",
       "SELECT r.uid, r.name, p.uid, r.seed, r.created_ms, r.attempts FROM run AS r LEFT JOIN run AS p ON p.id = "
       "r.parent_id WHERE r.id = $R"},
      {"attempt",
       "SELECT a.no, hex(r.digest), a.start_step, s.created_ms, s.step, hex(s.manifest), a.backend, a.num_processes, "
       "a.cpu_features, a.kernels, a.binary_version, a.host, a.pid, a.pid_start, a.boot_id, a.pid_namespace, "
       "a.started_ms, a.heartbeat_ms, a.ended_ms, a.status, a.exit_code, a.reason, "
       "json_remove(nullif(a.summary, ''), '$.states'), a.superseded_points, a.dropped_points, a.planned_steps "
       "FROM attempt AS a JOIN recipe AS r ON r.id = a.recipe_id LEFT JOIN state AS s ON s.id = a.from_state "
       "WHERE a.run_id = $R"},
      {"recipe",
       "SELECT hex(digest), hash, text, resolved, origins FROM recipe WHERE id IN "
       "(SELECT recipe_id FROM attempt WHERE run_id = $R)"},
      {"param", "SELECT key, type, value FROM param WHERE run_id = $R"},
      {"series",
       "SELECT name, n, first_step, last_step, first_value, last_value, min_value, min_step, max_value, "
       "max_step, sum, nan_count, inf_count, larger_is_better FROM series WHERE run_id = $R"},
      {"chunk", "SELECT s.name, c.* FROM chunk AS c JOIN series AS s ON s.id = c.series_id WHERE s.run_id = $R"},
      {"event", "SELECT attempt, time_ms, level, kind, json FROM event WHERE run_id = $R ORDER BY id"},
      {"state",
       "SELECT attempt, step, epoch, reason, pinned, superseded, bytes, new_bytes, created_ms, hex(manifest) "
       "FROM state WHERE run_id = $R ORDER BY id"},
      {"state_metric",
       "SELECT s.created_ms, s.step, m.name, m.value FROM state_metric AS m JOIN state AS s ON s.id = "
       "m.state_id WHERE s.run_id = $R"},
      {"state_name",
       "SELECT s.created_ms, s.step, n.name FROM state_name AS n JOIN state AS s ON s.id = n.state_id "
       "WHERE n.run_id = $R"},
      {"section",
       "SELECT s.created_ms, s.step, x.no, x.name, x.meta, x.bytes FROM section AS x JOIN state AS s ON s.id "
       "= x.state_id WHERE s.run_id = $R"},
      {"section_content",
       "SELECT s.created_ms, s.step, x.section_no, x.no, hex(c.digest) FROM section_content AS x JOIN "
       "state AS s ON s.id = x.state_id JOIN content AS c ON c.id = x.content_id WHERE s.run_id = $R"},
      {"content",
       "SELECT hex(digest), hex(data) FROM content WHERE id IN (SELECT content_id FROM source WHERE run_id = "
       "$R UNION SELECT content_id FROM section_content JOIN state ON state.id = state_id WHERE run_id = $R "
       "UNION SELECT content_id FROM artifact_content JOIN artifact ON artifact.id = artifact_id WHERE run_id "
       "= $R)"},
      {"tag", "SELECT tag FROM tag WHERE run_id = $R"},
      {"note", "SELECT time_ms, text FROM note WHERE run_id = $R"},
      {"artifact",
       "SELECT attempt, step, name, kind, meta, bytes, new_bytes, hex(digest), superseded, created_ms "
       "FROM artifact WHERE run_id = $R ORDER BY id"},
      {"artifact_content",
       "SELECT a.name, a.created_ms, x.no, hex(c.digest) FROM artifact_content AS x JOIN artifact AS "
       "a ON a.id = x.artifact_id JOIN content AS c ON c.id = x.content_id WHERE a.run_id = $R"},
      {"provenance",
       "SELECT p.attempt, e.json, p.git_commit, p.git_branch, p.git_dirty, p.git_untracked, p.git_note "
       "FROM provenance AS p JOIN environment AS e ON e.id = p.environment_id WHERE p.run_id = $R"},
      {"environment",
       "SELECT hex(digest), json FROM environment WHERE id IN (SELECT environment_id FROM provenance "
       "WHERE run_id = $R)"},
      {"source",
       "SELECT s.attempt, s.kind, s.path, hex(c.digest) FROM source AS s JOIN content AS c ON c.id = "
       "s.content_id WHERE s.run_id = $R"},
      {"data_file", "SELECT attempt, key, path, rows, bytes, hex(digest) FROM data_file WHERE run_id = $R"},
      {"device_metrics", "SELECT attempt, json FROM device_metrics WHERE run_id = $R"},
      {"graph", "SELECT * FROM graph WHERE run_id = $R"},
      {"compiled_graph", ""},
      {"lane", ""},
      {"encoded_chunk", ""},  // of older layouts, which are refused
  };
  return queries;
}

const std::set<std::string> kNumbers{"id", "run_id", "series_id"};

struct Finalize {
  void operator()(sqlite3_stmt* rows) const { sqlite3_finalize(rows); }
};

// Returns the rows of a run in a table, sorted unless the query does.
std::vector<std::string> rows_of(Store& store, const std::string& query, const std::string& uid) {
  const std::string id = std::to_string(find_run(store, uid, Trash::kIncluded).id);
  std::string sql = query;
  for (size_t at = 0; (at = sql.find("$R", at)) != std::string::npos;) sql.replace(at, 2, id);
  sqlite3_stmt* prepared = nullptr;
  EXPECT_EQ(sqlite3_prepare_v2(store.database().handle(), sql.c_str(), -1, &prepared, nullptr), SQLITE_OK) << sql;
  const std::unique_ptr<sqlite3_stmt, Finalize> rows(prepared);
  std::vector<std::string> found;
  while (sqlite3_step(prepared) == SQLITE_ROW) {
    std::string text;
    for (int i = 0; i < sqlite3_column_count(prepared); ++i) {
      const auto* value = reinterpret_cast<const char*>(sqlite3_column_text(prepared, i));
      if (!kNumbers.contains(sqlite3_column_name(prepared, i))) text += fmt::format("{}|", value ? value : "NULL");
    }
    found.push_back(text);
  }
  if (query.find("ORDER BY") == std::string::npos) std::ranges::sort(found);
  return found;
}

void expect_same_run(const fs::path& a, const fs::path& b, const std::string& uid) {
  Store one = Store::open(a, Access::kRead), other = Store::open(b, Access::kRead);
  Statement tables(one.database(),
                   "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name");
  while (tables.step()) {
    const std::string table = tables.text(0);
    ASSERT_TRUE(row_queries().contains(table)) << "ingest() copies no rows of the new table " << table;
    const std::string& query = row_queries().at(table);
    if (!query.empty()) {
      EXPECT_EQ(rows_of(one, query, uid), rows_of(other, query, uid)) << table;
    }
  }
}

StateInfo save(Store& store, const RunHandle& run, int64_t step, std::vector<std::string> names = {}) {
  const std::string weights = weights_of(step), frozen = weights_of(-1);
  const std::vector<SectionView> sections{{"w", "{}", bytes_of(weights)}, {"frozen", "{}", bytes_of(frozen)}};
  const StateHeader header{.step = step,
                           .epoch = step / 10,
                           .reason = "schedule",
                           .pinned = step == 1,
                           .metrics = {{"loss", loss_of(step)}},
                           .names = std::move(names)};
  return save_state(store, run, header, sections, /*chunk_bytes=*/4096);
}

void record_points(Store& store, const RunHandle& run, int64_t first, int64_t last) {
  Transaction transaction(store.database(), Transaction::Kind::kWrite);
  SeriesWriter series(store.database(), run.id);
  series.add_series("loss", false);
  series.add_series("accuracy", true);
  for (int64_t step = first; step <= last; ++step) {
    series.add(0, {step, 1000 * step, step == 7 ? kNan : loss_of(step)});
    series.add(1, {step, 1000 * step, 1 / loss_of(step)});
  }
  series.write();
  heartbeat(store, run, 0);
  transaction.commit();
}

Provenance sample_provenance() {
  Provenance provenance;
  provenance.git = {"52c6d14a", "main", true, {"new.txt"}, ""};
  provenance.environment_json = R"({"cpu":"EPYC"})";
  provenance.sources = {{"hook", "h.lua", "return {}"}, {"diff", "52c6d14a", std::string("\0\xff", 2)}};
  provenance.data = {{"data.train.path", "wine.csv", 178, 11'000, sha256("wine")}};
  return provenance;
}

// A run with rows in every table.
RunHandle record_run(Store& store, std::string name = "digits") {
  const RunHandle run = create_run(store, sample_run(std::move(name)));
  record_points(store, run, 1, 100);
  save(store, run, 1);
  save(store, run, 50, {"warm"});
  save(store, run, 100);
  const auto bytes = bytes_of("confusion");
  save_artifact(store, run, {"plots/a.csv", "table", "{}", 50}, std::vector<std::byte>(bytes.begin(), bytes.end()));
  save_artifact(store, run, {"empty", "table", "{}", 50}, std::vector<std::byte>());
  GraphRow graph;
  graph.key = "k";
  graph.texts = std::make_shared<const GraphTexts>(GraphTexts{.ir = "ir", .hlo = "hlo"});
  Transaction transaction(store.database(), Transaction::Kind::kWrite);
  put_provenance(store, run, sample_provenance());
  put_device_report(store, run, {.graphs = {graph}, .metrics_json = "{}"});
  Statement(store.database(),
            "INSERT INTO event(run_id, attempt, time_ms, level, kind, json) VALUES(?1, 1, 5, 'info', "
            "'note', '{}'), (?1, 1, 5, 'info', 'note', '{}')")
      .bind(run.id)
      .run();
  transaction.commit();
  add_tag(store, run.id, "baseline");
  add_note(store, run.id, "from the source");
  return run;
}

RunEnd done(const std::string& states) {
  return {.status = RunStatus::kDone,
          .exit_code = 0,
          .reason = "",
          .summary_json = fmt::format("{{\n  \"run\": \"x\",\n  \"states\": {}\n}}\n", states)};
}

RunHandle resume(Store& store, const std::string& uid, int64_t step) {
  AttemptInfo info = sample_run().attempt;
  info.start_step = step;
  for (const StateInfo& state : list_states(store, find_run(store, uid).id))
    if (state.step == step) info.from_state = state.id;
  return begin_attempt(store, uid, info);
}

class Ingest : public NetworkTest {
 protected:
  // Ingests the source, which has one run.
  IngestedRun ingest_one() {
    const std::vector<IngestedRun> runs = ingest(source, path);
    EXPECT_EQ(runs.size(), 1u);
    return runs.empty() ? IngestedRun{} : runs[0];
  }
  std::string record() {
    Store store = open_source();
    return record_run(store).uid;
  }
  Store open_source() const { return Store::open(source, Access::kWrite); }
  int64_t count(const std::string& query) const {
    Store store = Store::open(path, Access::kRead);
    return store.database().query_int64(query);
  }

  fs::path source = local / "source.db";
};

TEST_F(Ingest, CopiesEveryRow) {
  const std::string uid = record();
  const IngestedRun run = ingest_one();
  EXPECT_EQ(run.uid + " " + run.name, uid + " digits");
  EXPECT_EQ(run.result, IngestResult::kCopied);
  EXPECT_EQ(run.states, 3);
  EXPECT_EQ(run.kept, (std::vector<int64_t>{1, 2, 3}));
  expect_same_run(source, path, uid);
  Store store = Store::open(path, Access::kRead);
  store.check_file();
  for (const StateInfo& state : list_states(store, find_run(store, uid).id)) load_state(store, state.id);
  EXPECT_EQ(metric_points(store, find_run(store, uid), "loss").size(), 100u);
}

TEST_F(Ingest, IsIdempotent) {
  record();
  ingest_one();
  const std::string before = read_text(path);
  EXPECT_EQ(ingest_one().result, IngestResult::kUnchanged);
  EXPECT_EQ(read_text(path), before) << "not one byte is written";
}

TEST_F(Ingest, CopiesOnlyWhatIsNew) {
  const std::string uid = record();
  ingest_one();
  {
    Store store = open_source();
    const RunHandle run{find_run(store, uid).id, 1, uid};
    save(store, run, 130);
    Transaction transaction(store.database(), Transaction::Kind::kWrite);
    heartbeat(store, run, 3);
    transaction.commit();
  }
  const IngestedRun run = ingest_one();
  EXPECT_EQ(run.result, IngestResult::kCopied);
  EXPECT_EQ(run.states, 1);
  expect_same_run(source, path, uid);
  EXPECT_EQ(count("SELECT count(*) FROM content"), count("SELECT count(DISTINCT digest) FROM content"));
}

// A run that resumes from an earlier checkpoint takes back points, and marks checkpoints as superseded.
TEST_F(Ingest, FollowsAResumedRun) {
  const std::string uid = record();
  ingest_one();
  {
    Store store = open_source();
    const RunHandle run = resume(store, uid, 50);
    record_points(store, run, 51, 70);
    save(store, run, 70, {"warm"});
    finish_run(store, run, done("[1, 2, 4]"));
  }
  const IngestedRun run = ingest_one();
  EXPECT_EQ(run.states, 1);
  EXPECT_EQ(run.kept, (std::vector<int64_t>{1, 2, 4})) << "without superseded ones";
  expect_same_run(source, path, uid);
}

TEST_F(Ingest, RemovesStatesThatTheSourceRemovedExceptThoseThatForksNeed) {
  const std::string uid = record();
  ingest_one();
  {
    Store store = Store::open(path, Access::kEdit);
    RunInfo fork = sample_run("fork");
    fork.parent = uid;
    fork.attempt.from_state = 3;
    create_run(store, fork);
  }
  {
    Store store = open_source();
    const RunHandle run{find_run(store, uid).id, 1, uid};
    save(store, run, 101);
    keep_states(store, run.id, {4});
  }
  ingest_one();
  EXPECT_EQ(count("SELECT group_concat(step) = '100,101' FROM (SELECT step FROM state ORDER BY id)"), 1);
}

// The new state has the section "frozen" in common with the states that are removed.
TEST_F(Ingest, KeepsContentsOfRemovedStatesThatNewOnesUse) {
  const std::string uid = record();
  ingest_one();
  {
    Store store = open_source();
    const RunHandle run{find_run(store, uid).id, 1, uid};
    const int64_t newest = save(store, run, 200).id;
    keep_states(store, run.id, {newest});
  }
  ingest_one();
  expect_same_run(source, path, uid);
}

TEST_F(Ingest, RenumbersStatesWhoseNumbersAreTaken) {
  {
    Store store = Store::open(path, Access::kWrite);
    save(store, create_run(store, sample_run("other")), 5);
  }
  const std::string uid = record();
  {
    Store store = open_source();
    const RunHandle run = resume(store, uid, 50);
    finish_run(store, run, done("[\n    1,\n    2\n  ]"));
  }
  ingest_one();
  expect_same_run(source, path, uid);
  const RunDetails details = [&] {
    Store store = Store::open(path, Access::kRead);
    return show_run(store, find_run(store, uid));
  }();
  std::map<int64_t, int64_t> id_of;
  for (const StateInfo& state : details.states) id_of[state.step] = state.id;
  EXPECT_EQ(id_of[50], 3) << "2 was free, so the state of step 1 has it";
  EXPECT_EQ(details.attempts[1].from_state, id_of[50]);
  EXPECT_EQ(details.run.summary_json, "{\n  \"run\": \"x\",\n  \"states\": [\n    2,\n    3\n  ]\n}\n");
  EXPECT_EQ(ingest_one().result, IngestResult::kUnchanged);
}

TEST_F(Ingest, KeepsWhatUsersDidToTheTarget) {
  const std::string uid = record();
  ingest_one();
  {
    Store store = Store::open(path, Access::kEdit);
    const int64_t id = find_run(store, uid).id;
    add_tag(store, id, "mine");
    add_note(store, id, "mine");
    Statement(store.database(), "UPDATE attempt SET status = 'done'").run();  // so that it can be moved
    trash_run(store, id);
  }
  {
    Store store = open_source();
    add_tag(store, 1, "new");
  }
  ingest_one();
  Store store = Store::open(path, Access::kRead);
  const RunRow run = find_run(store, uid, Trash::kOnly);
  EXPECT_EQ(run.tags, (std::vector<std::string>{"baseline", "mine", "new"}));
  EXPECT_EQ(show_run(store, run).notes.size(), 2u);
}

TEST_F(Ingest, CopiesForksWithTheirParents) {
  const std::string uid = record();
  {
    Store store = open_source();
    RunInfo fork = sample_run("fork");
    fork.parent = uid;
    fork.attempt.from_state = 2;
    create_run(store, fork);
    trash_run(store, create_run(store, sample_run("in the trash")).id);
  }
  const std::vector<IngestedRun> runs = ingest(source, path);
  ASSERT_EQ(runs.size(), 2u);
  expect_same_run(source, path, runs[1].uid);
}

TEST_F(Ingest, DoesNotChangeANewerCopy) {
  const std::string uid = record();
  ingest_one();
  {
    Store store = Store::open(path, Access::kEdit);
    finish_run(store, resume(store, uid, 50), done("[]"));
  }
  const std::string before = read_text(path);
  IngestedRun run = ingest_one();
  EXPECT_EQ(run.result, IngestResult::kOlder);
  EXPECT_FALSE(run.has_unseen);
  EXPECT_EQ(read_text(path), before);
  {
    Store store = open_source();
    Statement(store.database(), "UPDATE attempt SET heartbeat_ms = heartbeat_ms + 1000").run();
  }
  run = ingest_one();
  EXPECT_EQ(run.result, IngestResult::kOlder);
  EXPECT_TRUE(run.has_unseen) << "the source's attempt has recorded something after it was ingested";
  EXPECT_EQ(read_text(path), before);
}

// A backup from between a checkpoint and the next heartbeat.
TEST_F(Ingest, DoesNotRemoveStatesThatWereSavedAfterTheSourceWasWritten) {
  const std::string uid = record();
  const fs::path backup = local / "backup.db";
  fs::copy(source, backup);
  {
    Store store = open_source();
    save(store, RunHandle{find_run(store, uid).id, 1, uid}, 130);
    Statement(store.database(), "UPDATE state SET created_ms = created_ms + 1000 WHERE step = 130").run();
  }
  ingest_one();
  EXPECT_EQ(ingest(backup, path).at(0).result, IngestResult::kOlder);
  EXPECT_EQ(count("SELECT count(*) FROM state"), 4);
}

TEST_F(Ingest, RefusesARunThatWasContinuedInBothStores) {
  const std::string uid = record();
  ingest_one();
  {
    Store store = Store::open(path, Access::kEdit);
    finish_run(store, resume(store, uid, 50), done("[]"));
    Statement(store.database(), "UPDATE attempt SET host = 'node7', pid = 12 WHERE no = 2").run();
  }
  {
    Store store = open_source();
    resume(store, uid, 100);
    Statement(store.database(), "UPDATE attempt SET host = 'node8', pid = 34 WHERE no = 2").run();
  }
  const std::string before = read_text(path);
  EXPECT_EQ(error_of([&] { ingest(source, path); }),
            fmt::format("store: run {0} was continued in both stores: its attempt 2 is of process 34 on node8 in {1}, "
                        "and of process 12 on node7 in {2}; fork one of them with `runner fork`, or remove one with "
                        "`runner rm --purge {0}`",
                        uid, source.string(), path.string()));
  EXPECT_EQ(read_text(path), before);
}

TEST_F(Ingest, RefusesFilesThatItCannotCopy) {
  const std::string uid = record();
  EXPECT_EQ(error_of([&] { ingest(source, source); }),
            fmt::format("usage: {} is the store itself; name a store to copy from", source.string()));
  write_file(local / "text.db", "this is no database");
  EXPECT_NE(error_of([&] { ingest(local / "text.db", path); }).find("is not an SQLite database"), std::string::npos);
  EXPECT_NE(error_of([&] { ingest(local / "missing.db", path); }).find("does not exist"), std::string::npos);
  {
    Store store = open_source();
    store.database().exec("PRAGMA user_version = 99");
  }
  EXPECT_NE(error_of([&] { ingest(source, path); }).find("has schema version 99, but this runner supports versions up"),
            std::string::npos);
  fs::remove(source);
  {
    Database database(source, OpenMode::kCreate);
    database.configure();
    apply_migrations(database, 0, std::ssize(migrations()) - 1);
    database.exec(fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}", kApplicationId,
                              std::ssize(migrations()) - 1));
  }
  EXPECT_EQ(
      error_of([&] { ingest(source, path); }),
      fmt::format("store: {0} has schema version {1}, but only version {2} can be ingested; `runner gc` with --db "
                  "{0} converts it",
                  source.string(), std::ssize(migrations()) - 1, std::ssize(migrations())));
  EXPECT_EQ(network.listing(), "") << "the target is not created";
}

TEST_F(Ingest, RefusesDamagedContents) {
  record();
  {
    Store store = open_source();
    store.database().exec("UPDATE content SET data = zeroblob(3) WHERE id = 2");
  }
  EXPECT_NE(error_of([&] { ingest(source, path); }).find(source.string() + " is damaged: contents 2 of run"),
            std::string::npos);
  EXPECT_EQ(count("SELECT count(*) FROM run"), 0);
}

TEST_F(Ingest, SurvivesKillsAtAnyTime) {
  const std::string uid = record();
  int kills = 0;
  for (int at = 1;; ++at) {
    const pid_t child = ::fork();
    if (child == 0) {
      int calls = 0;
      ingest(source, path, [&] {
        if (++calls == at) std::raise(SIGKILL);
      });
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    if (!WIFSIGNALED(status)) break;
    ++kills;
    Store store = Store::open(path, Access::kRead);
    ASSERT_TRUE(list_runs(store).empty()) << "all of a run or nothing, kill " << at;
  }
  EXPECT_GT(kills, 20);
  expect_same_run(source, path, uid);
  EXPECT_EQ(ingest_one().result, IngestResult::kUnchanged);
}

TEST_F(Ingest, LeavesAFullStoreAsItWas) {
  { Store::open(path, Access::kWrite); }
  const std::string uid = record();
  const auto size = static_cast<int64_t>(fs::file_size(path));
  EXPECT_TRUE(in_child([&] {
    const support::FullDisk full(size + 4096);
    return error_of([&] { ingest(source, path); }).find(path.string() + " cannot grow") != std::string::npos;
  }));
  EXPECT_EQ(count("SELECT count(*) FROM run"), 0);
  ingest_one();
  expect_same_run(source, path, uid);
}

TEST_F(Ingest, CopiesCompiledGraphsAndTheirLastUse) {
  record();
  const auto put = [](Store& store, const CompiledGraphs& graphs) {
    Transaction transaction(store.database(), Transaction::Kind::kWrite);
    put_compiled_graphs(store, graphs);
    transaction.commit();
  };
  {
    Store store = open_source();
    put(store, {.made = {{sha256("a"), {std::byte{1}}}, {sha256("b"), {std::byte{2}}}}, .used = {}});
    Store target = Store::open(path, Access::kWrite);
    put(target, {.made = {{sha256("a"), {std::byte{1}}}}, .used = {}});
    Statement(target.database(), "UPDATE compiled_graph SET used_ms = 1").run();
  }
  ingest_one();
  Store store = Store::open(path, Access::kRead);
  EXPECT_EQ(find_compiled_graph(store, sha256("b")), std::vector{std::byte{2}});
  EXPECT_EQ(store.database().query_int64("SELECT count(*) FROM compiled_graph WHERE used_ms > 1"), 2);
}

// ---- runs in a spool that began in the store -----------------------------------------------------------------------

class CheckOuts : public Ingest {
 protected:
  CheckOuts() {
    uid = record();
    ingest_one();
    Store store = open_source();
    finish_run(store, RunHandle{1, 1, uid}, done("[1, 2, 3]"));
    Store target = Store::open(path, Access::kEdit);
    finish_run(target, RunHandle{1, 1, uid}, done("[1, 2, 3]"));
  }
  Store check_out_into(const fs::path& file, CheckOut use) {
    Store spool_store = Store::open(file, Access::kWrite);
    spool_store.sync_new_file();
    check_out(path, uid, {2}, use, spool_store);
    Store store = Store::open(path, Access::kRead);
    continue_state_numbers(store, spool_store);
    return spool_store;
  }
  RunInfo fork_of_run() const {
    RunInfo fork = sample_run("fork");
    fork.parent = uid;
    fork.attempt.from_state = 2;
    return fork;
  }

  std::string uid;
  fs::path spool = local / "spool.db";
};

TEST_F(CheckOuts, HaveTheContentsOfOneStateAndGiveTheOthersBackUnchanged) {
  {
    Store store = check_out_into(spool, CheckOut::kResume);
    EXPECT_EQ(load_state(store, 2).sections.size(), 2u);
    EXPECT_NE(error_of([&] { load_state(store, 3); }), "no error") << "its contents stayed where they are";
    const RunHandle run = resume(store, uid, 50);
    record_points(store, run, 51, 80);
    EXPECT_EQ(save(store, run, 80).id, 4) << "numbers continue those of the store";
    finish_run(store, run, done("[1, 2, 4]"));
  }
  {
    Store store = Store::open(path, Access::kEdit);
    remove_tag(store, find_run(store, uid).id, "baseline");
  }
  EXPECT_EQ(ingest(spool, path).at(0).states, 1);
  Store store = Store::open(path, Access::kRead);
  const RunDetails details = show_run(store, find_run(store, uid));
  EXPECT_EQ(details.attempts.size(), 2u);
  EXPECT_EQ(details.attempts[1].from_state, 2);
  EXPECT_EQ(details.artifacts.size(), 2u);
  EXPECT_EQ(details.states.size(), 4u);
  for (const StateInfo& state : details.states) EXPECT_EQ(load_state(store, state.id).sections.size(), 2u) << state.id;
  for (const ArtifactInfo& artifact : details.artifacts) read_artifact(store, artifact);
  EXPECT_TRUE(details.run.tags.empty()) << "a tag that was removed meanwhile stays removed";
}

TEST_F(CheckOuts, LetOtherProcessesUseTheStoreBetweenParts) {
  {
    Store store = Store::open(path, Access::kEdit);
    const RunHandle run = resume(store, uid, 50);
    const std::string weights = weights_of(60, size_t{140} << 20);
    const std::vector<SectionView> sections{{"w", "{}", support::bytes_of(weights)}};
    save_state(store, run, {.step = 60, .epoch = 0, .reason = "schedule", .metrics = {}}, sections);
  }
  Store copy = Store::open(spool, Access::kWrite);
  std::atomic<bool> has_ended = false, was_between = false;
  std::thread other([&] {
    while (!has_ended) {
      {
        const auto lock = StoreLock::acquire(path).lock;
        Store part = Store::open(spool, Access::kRead);
        if (part.database().query_int64("SELECT (SELECT count(*) FROM content) > 0 AND (SELECT count(*) FROM run) = 0"))
          was_between = true;
      }
      std::this_thread::sleep_for(50ms);  // like commands, it leaves the lock free most of the time
    }
  });
  EXPECT_EQ(error_of([&] { check_out(path, uid, {4}, CheckOut::kResume, copy); }), "no error");
  has_ended = true;
  other.join();
  EXPECT_TRUE(was_between);
}

TEST_F(CheckOuts, DoNotBringPurgedParentsBack) {
  const RunInfo fork = fork_of_run();
  {
    Store store = check_out_into(spool, CheckOut::kFork);
    save(store, create_run(store, fork), 51);
  }
  {
    Store store = Store::open(path, Access::kEdit);
    remove_run(store, find_run(store, uid).id);
  }
  const std::vector<IngestedRun> runs = ingest(spool, path);
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].uid, fork.uid);
  EXPECT_EQ(count("SELECT count(*) FROM run"), 1);
}

TEST_F(CheckOuts, OfAParentLeadToItsStateInTheStore) {
  const RunInfo fork = fork_of_run();
  {
    Store store = check_out_into(spool, CheckOut::kFork);
    create_run(store, fork);
  }
  ingest(spool, path);
  Store store = Store::open(path, Access::kRead);
  const RunDetails details = show_run(store, find_run(store, fork.uid));
  EXPECT_EQ(details.run.parent, uid);
  EXPECT_EQ(details.attempts[0].from_state, 2);
}

TEST_F(CheckOuts, CanBeIngestedIntoAnotherStoreWithoutTheStatesThatTheyLack) {
  {
    Store store = check_out_into(spool, CheckOut::kResume);
    save(store, resume(store, uid, 50), 80);
  }
  const fs::path other = local / "other.db";
  EXPECT_EQ(ingest(spool, other).at(0).states, 2);
  Store store = Store::open(other, Access::kRead);
  for (const StateInfo& state : list_states(store, find_run(store, uid).id)) load_state(store, state.id);
}

}  // namespace
}  // namespace runner::store
