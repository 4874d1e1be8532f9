#include "store/queries.h"

#include <cmath>

#include <gtest/gtest.h>
#include <sqlite3.h>

#include "store/migrations.h"
#include "store/run_selection.h"
#include "store/run_writer.h"
#include "store/sql_functions.h"
#include "store/sqlite.h"
#include "tests/store/encode_points.h"
#include "tests/store/sample_values.h"
#include "tests/store/temp_store.h"
#include "tests/support/allocations.h"

namespace runner::store {
namespace {

using namespace std::chrono_literals;

class Queries : public StoreTest {
 protected:
  std::string run(const std::string& name, const std::string& uid = new_run_uid()) {
    Store store = open_to_write();
    RunInfo info = sample_run(name);
    info.uid = uid;
    return create_run(store, info).uid;
  }

  // Returns rows as text: columns separated by |, NULL as null.
  std::string sql(const std::string& text) {
    std::string result;
    for (const auto& row : sql_query(path, text).rows) {
      result += result.empty() ? "" : "\n";
      for (size_t i = 0; i < row.size(); ++i) {
        result += i == 0 ? "" : "|";
        result += std::visit(
            [](const auto& value) -> std::string {
              using T = std::decay_t<decltype(value)>;
              if constexpr (std::is_same_v<T, std::monostate>)
                return "null";
              else if constexpr (std::is_same_v<T, std::vector<std::byte>>)
                return fmt::format("{} bytes", value.size());
              else
                return fmt::format("{}", value);
            },
            row[i]);
      }
    }
    return result;
  }

  std::string find_error(const std::string& selector) {
    return error_of([&] {
      Store store = open_to_read();
      find_run(store, selector);
    });
  }
};

TEST_F(Queries, FindsARunByIdNamePrefixAndAsTheLast) {
  run("wine", "0000000aaa");
  run("digits", "0000000abb");
  run("digits", "0000001bcc");
  run("0000000a", "0000002ddd");  // a name that is also a prefix takes precedence
  Store store = open_to_read();
  EXPECT_EQ(find_run(store, "0000000aaa").name, "wine");
  EXPECT_EQ(find_run(store, "digits").uid, "0000001bcc");  // the newest run of that name
  EXPECT_EQ(find_run(store, "0000001").uid, "0000001bcc");
  EXPECT_EQ(find_run(store, "0000000aa").uid, "0000000aaa");
  EXPECT_EQ(find_run(store, "0000000a").uid, "0000002ddd");
  EXPECT_EQ(find_run(store, "@last").uid, "0000002ddd");
  std::vector<std::string> names;
  for (const RunRow& row : list_runs(store)) names.push_back(row.name);
  EXPECT_EQ(names, (std::vector<std::string>{"0000000a", "digits", "digits", "wine"}));
  EXPECT_EQ(list_runs(store, 2).size(), 2u);
}

// The list and find_run() agree on each run, wherever its attempts are in the file.
TEST_F(Queries, ListShowsTheNewestAttemptOfEachRun) {
  for (const char* uid : {"0000000aaa", "0000000bbb", "0000000ccc", "0000000ddd"}) run("digits", uid);
  {
    Store store = open_to_write();
    for (const auto& [uid, attempts] : {std::pair{"0000000ccc", 3}, std::pair{"0000000aaa", 2}}) {
      for (int i = 1; i < attempts; ++i) {
        AttemptInfo info = sample_run().attempt;
        info.backend = fmt::format("backend {}", i + 1);
        info.start_step = int64_t{10} * i;
        info.planned_steps = int64_t{100} * i;
        const RunHandle handle = begin_attempt(store, uid, info);
        heartbeat(store, handle, i);
        finish_run(store, handle, {RunStatus::kInterrupted, 4, fmt::format("stop {}", i), "{}"});
      }
    }
    trash_run(store, find_run(store, "0000000bbb").id);
  }
  Store store = open_to_read();
  const auto listed = [&](int64_t limit, Trash trash) {
    std::string text;
    for (const RunRow& row : list_runs(store, limit, trash)) {
      const RunRow found = find_run(store, row.uid, Trash::kIncluded);
      EXPECT_EQ(std::tie(row.id, row.backend, row.reason, row.status, row.start_step, row.started_ms, row.host),
                std::tie(found.id, found.backend, found.reason, found.status, found.start_step, found.started_ms,
                         found.host));
      text += row.uid.back() + std::to_string(row.attempts) + row.reason + ' ';
    }
    return text;
  };
  EXPECT_EQ(listed(0, Trash::kHidden), "d1 c3stop 2 a2stop 1 ");
  EXPECT_EQ(listed(2, Trash::kHidden), "d1 c3stop 2 ");
  EXPECT_EQ(listed(0, Trash::kOnly), "b1 ");
  EXPECT_EQ(find_run(store, "0000000ccc").planned_steps, 200);
  EXPECT_EQ(find_run(store, "0000000ddd").planned_steps, std::nullopt);
  const std::vector<RunRow> counted = select_runs(store, {.dropped_points = true}).runs;
  EXPECT_EQ(counted.at(0).dropped_points, 0);
  EXPECT_EQ(counted.at(1).dropped_points, 3);
  EXPECT_EQ(counted.at(2).dropped_points, 1);
}

TEST_F(Queries, ErrorExplainsWhyNoRunIsFound) {
  { open_to_write(); }
  EXPECT_EQ(find_error("@last"),
            fmt::format("not found: no runs in {} yet; `runner exec RECIPE` records one", path.string()));
  run("digits", "0000000aaa");
  run("wine", "0000000abb");
  EXPECT_EQ(find_error("digit"), fmt::format("not found: no run digit in {}; did you mean digits?", path.string()));
  EXPECT_EQ(find_error("regression"),
            fmt::format("not found: no run regression in {}; `runner ls` lists the runs", path.string()));
  EXPECT_EQ(find_error("0000000a"),
            "not found: 0000000a is ambiguous: 2 runs start with it: 0000000aaa, 0000000abb; use a longer prefix");
  for (char last = 'b'; last <= 'i'; ++last) run("digits", fmt::format("0000000b{0}{0}", last));
  EXPECT_EQ(find_error("0000000b"),
            "not found: 0000000b is ambiguous: 8 runs start with it: 0000000bbb, 0000000bcc, 0000000bdd, 0000000bee, "
            "0000000bff, 0000000bgg, 0000000bhh, 0000000bii; use a longer prefix");
  EXPECT_EQ(find_error("0000000"),
            "not found: 0000000 is ambiguous: 10 runs start with it: 0000000aaa, 0000000abb, 0000000bbb, 0000000bcc, "
            "0000000bdd, 0000000bee, 0000000bff, 0000000bgg, …; use a longer prefix");
  EXPECT_EQ(find_error(""), fmt::format("not found: no run  in {}; `runner ls` lists the runs", path.string()));
}

// A double cannot represent 2^53 + 1.
TEST_F(Queries, LargeIntegersAreComparedExactly) {
  Store store = open_to_write();
  for (const int64_t last : {2, 3, 1}) {
    RunInfo info = sample_run(fmt::format("r{}", last));
    info.seed = 9'007'199'254'740'990 + last;
    create_run(store, info);
  }
  const auto names = [&](const RunQuery& query) {
    std::string text;
    for (const RunRow& run : select_runs(store, query).runs) text += run.name + " ";
    return text;
  };
  EXPECT_EQ(names({.where = "seed = 9007199254740993"}), "r3 ");
  EXPECT_EQ(names({.where = "seed > 9007199254740992"}), "r3 ");
  EXPECT_EQ(names({.sort = "seed"}), "r1 r2 r3 ");
}

// A prefix is looked up in the other place, the trash or the list, only if the first one has no match.
TEST_F(Queries, PrefixIsResolvedSeparatelyInTheTrash) {
  for (const char* uid : {"0000000ab1", "0000000ab2", "0000000ab3", "0000000cd1", "0000000cd2", "0000000cd3"}) {
    run("digits", uid);
  }
  Store store = open_to_write();
  for (const char* uid : {"0000000ab2", "0000000ab3", "0000000cd3"}) trash_run(store, find_run(store, uid).id);
  EXPECT_EQ(find_run(store, "0000000ab").uid, "0000000ab1");
  EXPECT_EQ(find_run(store, "0000000ab", Trash::kIncluded).uid, "0000000ab1");
  EXPECT_EQ(find_run(store, "0000000cd", Trash::kOnly).uid, "0000000cd3");
  EXPECT_EQ(error_of([&] { find_run(store, "0000000ab", Trash::kOnly); }),
            "not found: 0000000ab is ambiguous: 2 runs start with it: 0000000ab2, 0000000ab3; use a longer prefix");
  EXPECT_EQ(find_error("0000000cd"),
            "not found: 0000000cd is ambiguous: 2 runs start with it: 0000000cd1, 0000000cd2; use a longer prefix");
}

TEST_F(Queries, ReturnsEveryPointOfAMetricInStepOrder) {
  Store store = open_to_write();
  const RunInfo info = sample_run();
  {
    RunWriter writer(open_to_write(), info);
    const SeriesIndex loss = writer.series("train/loss"), odd = writer.series("odd");
    for (int64_t step = 1; step <= 1200; ++step) writer.push(loss, step, 1.0 / static_cast<double>(step));
    // Steps that decrease, and values that are not finite.
    for (const auto& [step, value] : {std::pair<int64_t, double>{5, 1}, {3, kNan}, {3, HUGE_VAL}, {4, -HUGE_VAL}}) {
      writer.push(odd, step, value);
    }
    writer.finish({});
  }
  const RunRow run = find_run(store, info.uid);
  const auto points = metric_points(store, run, "train/loss");
  ASSERT_EQ(points.size(), 1200u);
  for (size_t i = 0; i < points.size(); ++i) {
    EXPECT_EQ(points[i].step, static_cast<int64_t>(i + 1));
    EXPECT_EQ(points[i].value, 1.0 / static_cast<double>(i + 1));
    EXPECT_NEAR(static_cast<double>(points[i].time_ms), static_cast<double>(run.created_ms), 60'000);
  }
  const auto odd = metric_points(store, run, "odd");
  ASSERT_EQ(odd.size(), 4u);
  EXPECT_TRUE(std::isnan(odd[0].value));
  EXPECT_EQ(odd[1].value, HUGE_VAL);
  EXPECT_EQ(odd[2].value, -HUGE_VAL);
  EXPECT_EQ(odd[3].step, 5);

  EXPECT_EQ(error_of([&] { metric_points(store, run, "train/los"); }),
            fmt::format("not found: run {} has no metric train/los; did you mean train/loss?", run.uid));
  EXPECT_EQ(error_of([&] { metric_points(store, run, "accuracy"); }),
            fmt::format("not found: run {} has no metric accuracy; it has odd, train/loss", run.uid));
  const RunHandle empty = create_run(store, sample_run("empty"));
  EXPECT_EQ(error_of([&] { metric_points(store, find_run(store, "empty"), "loss"); }),
            fmt::format("not found: run {} has no metric loss; it has no metrics yet", empty.uid));
}

TEST_F(Queries, SummariesMatchThePoints) {
  const RunInfo info = sample_run();
  {
    RunWriter writer(open_to_write(), info);
    const SeriesIndex x = writer.series("x");
    const double values[] = {kNan, 3, -HUGE_VAL, 1, 3, kNan};
    for (int64_t step = 1; step <= 6; ++step) writer.push(x, 10 * step, values[step - 1]);
    const SeriesIndex none = writer.series("only/nan");
    writer.push(none, 1, kNan);
    writer.finish({});
  }
  Store store = open_to_read();
  const auto metrics = list_metrics(store, find_run(store, info.uid).id);
  ASSERT_EQ(metrics.size(), 2u);
  EXPECT_EQ(metrics[0].name, "only/nan");
  EXPECT_TRUE(std::isnan(metrics[0].min) && std::isnan(metrics[0].max) && std::isnan(metrics[0].last));
  const MetricSummary& m = metrics[1];
  EXPECT_EQ(m.n, 6);
  EXPECT_EQ(m.first_step, 10);
  EXPECT_EQ(m.last_step, 60);
  EXPECT_TRUE(std::isnan(m.first) && std::isnan(m.last));
  EXPECT_EQ(m.min, -HUGE_VAL);
  EXPECT_EQ(m.min_step, 30);
  EXPECT_EQ(m.max, 3);
  EXPECT_EQ(m.max_step, 20);  // the first step with that value
  EXPECT_EQ(m.sum, 7);
  EXPECT_EQ(m.nan_count, 2);
  EXPECT_EQ(m.inf_count, 1);
  EXPECT_EQ(sql("SELECT metric, n, min, max, mean, last, nan_count, inf_count FROM metrics ORDER BY metric"),
            "only/nan|1|null|null|null|null|1|0\nx|6|-inf|3|2.3333333333333335|null|2|1");
}

TEST_F(Queries, DetectsAChangedRecipe) {
  const std::string uid = run("digits");
  Store store = open_to_write();
  const RunRow row = find_run(store, uid);
  for (const char* column : {"hash", "text", "resolved", "origins"}) {
    Statement(store.database(), fmt::format("UPDATE recipe SET {0} = {0} || ' '", column)).run();
    EXPECT_EQ(error_of([&] { show_run(store, row); }),
              fmt::format("store: the recipe of run {} in {} is damaged: it fails its checksum; restore the store from "
                          "a backup, or start a new run",
                          uid, path.string()));
    const RunDetails left = show_intact_parts(store, row);
    ASSERT_EQ(left.damage.size(), 1u);
    EXPECT_EQ(left.damage[0].part, "recipe");
    EXPECT_EQ("store: " + left.damage[0].message, error_of([&] { show_run(store, row); }));
    EXPECT_EQ(left.recipe.text + left.recipe.resolved_json, "");
    EXPECT_EQ(left.params.size(), sample_run().attempt.params.size());
    Statement(store.database(), fmt::format("UPDATE recipe SET {0} = rtrim({0})", column)).run();
    EXPECT_EQ(show_run(store, row).recipe.text, sample_run().attempt.recipe.text);
  }
}

TEST_F(Queries, ErrorNamesTheDamagedChunk) {
  const RunInfo info = sample_run();
  {
    RunWriter writer(open_to_write(), info);
    const SeriesIndex loss = writer.series("loss"), other = writer.series("other");
    for (int64_t step = 1; step <= 600; ++step) {
      writer.push(loss, step, 0.5);
      writer.push(other, step, 0.25);
    }
    writer.finish({});
  }
  Store store = open_to_write();
  store.database().exec(
      "UPDATE chunk SET value_3 = 0.75 WHERE no = 1 AND series_id = (SELECT id FROM series WHERE name = 'loss')");
  const RunRow run = find_run(store, info.uid);
  EXPECT_EQ(error_of([&] { metric_points(store, run, "loss"); }),
            fmt::format("store: the store {} is damaged: chunk 1 of the points of loss fails its checksum; restore a "
                        "backup; other metrics can still be read",
                        path.string()));
  EXPECT_EQ(metric_points(store, run, "other").size(), 600u);
  EXPECT_EQ(sql("SELECT sum(value) FROM points WHERE metric = 'other'"), "150");
}

// All columns of the documented views.
TEST_F(Queries, ViewsHaveTheDocumentedColumns) {
  { open_to_write(); }
  const auto columns = [&](const std::string& view) {
    return sql("SELECT group_concat(name, ' ') FROM pragma_table_info('" + view + "')");
  };
  EXPECT_EQ(columns("runs"),
            "run name status exit_code reason backend num_processes seed parent attempts created started ended seconds "
            "dropped_points host pid tags recipe_hash recipe cpu_features kernels binary_version summary trashed");
  EXPECT_EQ(columns("trash"), columns("runs"));
  EXPECT_EQ(columns("params"), "run name key type value");
  EXPECT_EQ(columns("metrics"),
            "run name metric n first_step last_step first last min min_step max max_step mean nan_count inf_count "
            "bytes larger_is_better best best_step");
  EXPECT_EQ(columns("points"), "run name metric step value time_ms");
  EXPECT_EQ(columns("states"),
            "state run name attempt step epoch reason pinned superseded bytes new_bytes created names");
  EXPECT_EQ(columns("artifacts"), "run name artifact attempt step kind meta bytes new_bytes sha256 superseded created");
  EXPECT_EQ(columns("attempts"),
            "run name attempt status exit_code reason start_step from_state superseded_points dropped_points backend "
            "num_processes started ended seconds host pid cpu_features kernels binary_version recipe_hash git_commit "
            "git_branch git_dirty git_untracked git_note planned_steps");
  EXPECT_EQ(columns("environments"), "run name attempt key value");
  EXPECT_EQ(columns("sources"), "run name attempt kind path bytes sha256 text");
  EXPECT_EQ(columns("events"), "run name attempt time level kind json");
}

TEST_F(Queries, ViewsReturnRecordedValues) {
  RunInfo info = sample_run();
  info.attempt.params = {
      {"optimizer.lr", 0.001}, {"train.epochs", int64_t{3}}, {"data.shuffle", true}, {"hooks", std::monostate{}}};
  {
    RunWriter writer(open_to_write(), info);
    const SeriesIndex loss = writer.series("loss");
    for (int64_t step = 1; step <= 3; ++step) writer.push(loss, step, static_cast<double>(step) / 4);
    writer.event(Level::kWarning, "nan", R"({"step":2})");
    StateSnapshot snapshot = writer.snapshot();
    snapshot.header.step = 3;
    snapshot.header.reason = "end";
    snapshot.add("w", "", bytes_of("12345"));
    writer.save_state(std::move(snapshot)).get();
    writer.finish({RunStatus::kDone, 0, "", "{}"});
  }
  EXPECT_EQ(sql("SELECT name, status, exit_code, backend, seed, parent, attempts, dropped_points, recipe_hash, summary "
                "FROM runs"),
            "digits|done|0|cpu|42|null|1|0|hash-1|{}");
  EXPECT_EQ(sql("SELECT created LIKE '20__-__-__T__:__:__.___Z', ended >= started, seconds >= 0 FROM runs"), "1|1|1");
  EXPECT_EQ(sql("SELECT key, type, value FROM params"),
            "data.shuffle|bool|1\nhooks|null|null\noptimizer.lr|float|0.001\ntrain.epochs|int|3");
  EXPECT_EQ(sql("SELECT metric, step, value FROM points"), "loss|1|0.25\nloss|2|0.5\nloss|3|0.75");
  EXPECT_EQ(sql("SELECT state, step, reason, bytes, new_bytes, pinned FROM states"), "1|3|end|5|5|0");
  EXPECT_EQ(sql("SELECT level, kind, json FROM events"), R"(warning|nan|{"step":2})");
  EXPECT_EQ(sql("SELECT r.name, p.value FROM runs r JOIN params p USING (run) JOIN metrics m USING (run) "
                "WHERE m.max > 0.7 AND p.key = 'optimizer.lr'"),
            "digits|0.001");
}

// Every view except `points` is plain SQL that any program can read.
TEST_F(Queries, ViewsArePlainSql) {
  run("digits");
  Database plain(path, OpenMode::kReadWrite);
  for (const char* view :
       {"runs", "params", "metrics", "states", "artifacts", "attempts", "environments", "sources", "events"}) {
    EXPECT_EQ(error_of([&] { plain.query_int64(fmt::format("SELECT count(*) FROM {}", view)); }), "no error") << view;
  }
}

TEST_F(Queries, SqlReturnsColumnsAndTypes) {
  { open_to_write(); }
  const SqlResult result = sql_query(path, "SELECT 1 AS a, 0.5 AS b, 'x' AS c, NULL AS d, X'0102' AS e;  ");
  EXPECT_EQ(result.columns, (std::vector<std::string>{"a", "b", "c", "d", "e"}));
  ASSERT_EQ(result.rows.size(), 1u);
  EXPECT_EQ(result.rows[0], (std::vector<SqlValue>{int64_t{1}, 0.5, std::string("x"), std::monostate{},
                                                   std::vector<std::byte>{std::byte{1}, std::byte{2}}}));
  EXPECT_TRUE(sql_query(path, "SELECT run FROM runs WHERE 0").rows.empty());
}

TEST_F(Queries, SqlOnlyReads) {
  run("digits");
  const auto refused = [&](const std::string& text) { return error_of([&] { sql(text); }); };
  for (const char* text : {"DELETE FROM run",
                           "INSERT INTO tag VALUES(1, 'x')",
                           "UPDATE run SET name = 'x'",
                           "DROP VIEW runs",
                           "CREATE TABLE t(x)",
                           "CREATE TEMP TABLE t(x)",
                           "PRAGMA user_version = 7",
                           "PRAGMA query_only = OFF",
                           "ATTACH 'other.db' AS other",
                           "BEGIN",
                           "VACUUM",
                           "VACUUM INTO 'copy.db'",
                           "REINDEX",
                           "WITH x AS (SELECT 1) DELETE FROM run",
                           "PRAGMA journal_mode = DELETE",
                           "PRAGMA wal_checkpoint",
                           "PRAGMA integrity_check",
                           "PRAGMA temp_store_directory = '/'",
                           "PRAGMA optimize",
                           "PRAGMA database_list",
                           "PRAGMA application_id = 1",
                           "DETACH main",
                           "SAVEPOINT x",
                           "ANALYZE",
                           "EXPLAIN DELETE FROM run",
                           "CREATE TEMP TRIGGER t AFTER INSERT ON run BEGIN SELECT 1; END",
                           "CREATE VIRTUAL TABLE t USING fts5(x)",
                           "ALTER TABLE run RENAME TO runner"}) {
    EXPECT_EQ(refused(text), "usage: `runner sql` is read-only; write a SELECT statement") << text;
  }
  EXPECT_NE(refused("SELECT load_extension('x')").find("not authorized to use function: load_extension"),
            std::string::npos);
  // SELECT statements that would access something outside the database.
  for (const char* text : {"SELECT * FROM pragma_journal_mode('delete')", "SELECT * FROM pragma_database_list",
                           "SELECT * FROM pragma_integrity_check", "SELECT fts3_tokenizer('simple')",
                           "SELECT writefile('x', 'y')", "SELECT readfile('/etc/passwd')", "SELECT edit('x')",
                           "SELECT * FROM fsdir('/')", "UPDATE temp.runs SET name = 'x'"}) {
    const std::string error = refused(text);
    EXPECT_TRUE(error.starts_with("usage: invalid SQL: ") || error.starts_with("recipe: SQL:1:")) << text << error;
  }
  EXPECT_EQ(folder.listing().find("copy.db"), std::string::npos);
  EXPECT_EQ(sql("SELECT count(*) FROM runs"), "1");
  EXPECT_EQ(sql("PRAGMA user_version"), std::to_string(migrations().size()));
  EXPECT_EQ(sql("PRAGMA table_info(params)").substr(0, 5), "0|run");
  EXPECT_EQ(sql("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5) SELECT sum(i) FROM n"),
            "15");
}

// No value, row, result or temporary data of a query can exhaust the machine's memory.
TEST_F(Queries, SqlMemoryIsLimited) {
  { open_to_write(); }
  const auto error = [&](const std::string& text) { return error_of([&] { sql(text); }); };
  const std::string endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) ";
  EXPECT_EQ(error("SELECT zeroblob(67108865)"), "usage: invalid SQL: string or blob too big");
  EXPECT_EQ(error("SELECT length(replace(hex(zeroblob(2000000)), '0', 'a long word in place of a digit'))"),
            "usage: invalid SQL: string or blob too big");
  EXPECT_EQ(error("SELECT length(zeroblob(67108864))"), "no error");
  EXPECT_EQ(error(endless + "SELECT i, zeroblob(60000000) FROM n"),
            "usage: the result exceeds 512 MiB; narrow it with WHERE or LIMIT");
  EXPECT_EQ(error(endless + "SELECT i, randomblob(10000000) FROM n ORDER BY 2"),
            "usage: the query exceeded the memory limit of 1024 MiB; narrow it with WHERE or LIMIT");
  std::string columns = "SELECT 1";
  for (int i = 0; i < 2000; ++i) columns += ",1";
  EXPECT_EQ(error(columns), "usage: invalid SQL: too many columns in result set");
  EXPECT_NE(error("SELECT " + std::string(2000, '(') + "1" + std::string(2000, ')')), "no error");
  // The heap limit is removed after the query.
  EXPECT_EQ(sqlite3_hard_heap_limit64(-1), 0);
}

TEST_F(Queries, SqlErrorsPointAtTheMistake) {
  { open_to_write(); }
  EXPECT_EQ(error_of([&] { sql("SELECT ‘é’ AS x,\n  loss FROM runs"); }),
            "recipe: SQL:1:8: error: no such column: ‘é’ [bad-expression]\n  SELECT ‘é’ AS x,\n         ^~~\n"
            "hint: the views are runs, attempts, params, metrics, points, states, artifacts, events, sources, "
            "environments and trash\n");
  EXPECT_EQ(error_of([&] { sql("SELECT 'é',\n  loss FROM runs"); }),
            "recipe: SQL:2:3: error: no such column: loss [bad-expression]\n    loss FROM runs\n    ^~~~\n"
            "hint: the views are runs, attempts, params, metrics, points, states, artifacts, events, sources, "
            "environments and trash\n");
  EXPECT_EQ(error_of([&] { sql("SELEC 1"); }),
            "recipe: SQL:1:1: error: near \"SELEC\": syntax error [bad-expression]\n  SELEC 1\n  ^~~~~\n");
  EXPECT_EQ(error_of([&] { sql(" -- nothing"); }), "usage: there is no SQL to run; write a SELECT");
  EXPECT_EQ(error_of([&] { sql("SELECT 1; SELECT 2"); }),
            "usage: `runner sql` runs one statement, but more text follows it:  SELECT 2");
  for (const char* more : {"; -- c", ";;\n/* c */ ; -- d"}) EXPECT_EQ(sql(std::string("SELECT 1").append(more)), "1");
  EXPECT_EQ(error_of([&] { sql("SELECT 1; -- c\n SELECT"); }),
            "usage: `runner sql` runs one statement, but more text follows it:  -- c\n SELECT");
  EXPECT_EQ(
      error_of([&] {
        sql_query(path, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n", 20ms);
      }),
      "usage: the query exceeded the time limit of 20 ms; narrow it with WHERE, or with LIMIT if it is recursive");
}

// No exception may propagate through SQLite, which is C code. An allocation that fails in one of our callbacks becomes
// a result code.
TEST_F(Queries, FailedAllocationInACallbackIsAnSqliteError) {
  Store store = open_to_write();
  register_live_status(store.database());
  const std::vector<std::byte> chunk = encode_points(std::vector<Point>(100));
  std::string hex;
  for (const std::byte byte : chunk) hex += fmt::format("{:02x}", byte);
  for (const std::string& text :
       {fmt::format("SELECT count(*) FROM chunk_points(X'{}')", hex),
        std::string("SELECT process_runs('a host of a long name', 'a boot of a long name', '', 1, 2, 3)")}) {
    int failures = 0;
    for (bool done = false; !done; ++failures) {
      support::fail_allocation(failures);
      try {
        Statement statement(store.database(), text);
        support::fail_allocation(failures);
        done = statement.step();
      } catch (const SqliteError& error) {
        EXPECT_NE(error.message().find("out of memory"), std::string::npos)
            << error.message() << text << ", allocation " << failures;
      }
      support::fail_allocation(-1);
    }
    EXPECT_GT(failures, 1) << text;
  }
}

}  // namespace
}  // namespace runner::store
