// Stores of older versions: every layout ever released reads like the newest one and is not modified.
#include <gtest/gtest.h>

#include "store/encoded_points.h"
#include "store/layout.h"
#include "store/metric_tables.h"
#include "store/migrations.h"
#include "store/sqlite.h"
#include "tests/store/encode_points.h"
#include "tests/store/sample_values.h"
#include "tests/store/temp_store.h"

namespace runner::store {
namespace {

constexpr std::string_view kViews[] = {"runs",      "attempts", "params",  "metrics",      "points", "states",
                                       "artifacts", "events",   "sources", "environments", "trash"};

class OlderLayout : public StoreTest, public ::testing::WithParamInterface<size_t> {
 protected:
  // Records what a runner of that version would have: a finished run with three points, a checkpoint, an event and a
  // tag, and a run whose process no longer exists. Uses only columns of the first layout.
  void SetUp() override {
    Database database(path, OpenMode::kCreate);
    database.configure();
    database.exec("PRAGMA synchronous = OFF");
    apply_migrations(database, 0, static_cast<int64_t>(GetParam()));
    database.exec(fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}", kApplicationId, GetParam()));
    database.query_text("PRAGMA journal_mode = WAL");
    const Sha256Digest recipe = digest_of(sample_run().attempt.recipe);
    Statement(database,
              "INSERT INTO recipe VALUES(1, ?1, 'hash-1', 'name: digits' || char(10), '{\"name\":\"digits\"}', "
              "'{\"name\":\"recipe.yaml:1\"}')")
        .bind(std::as_bytes(std::span(recipe)))
        .run();
    for (const int run : {1, 2}) {
      database.exec(fmt::format(
          "INSERT INTO run(id, uid, name, seed, created_ms, attempts) VALUES({0}, '000000000{0}', 'digits', 42, 0, 1);"
          "INSERT INTO attempt(run_id, no, recipe_id, start_step, backend, num_processes, cpu_features, kernels, "
          "  binary_version, host, pid, pid_start, boot_id, pid_namespace, started_ms, heartbeat_ms, status, "
          "  superseded_points) "
          "VALUES({0}, 1, 1, 0, 'cpu', 1, '', '{{}}', '', 'gone', 1, 1, 'boot', '', 0, 500, '{1}', 0)",
          run, run == 1 ? "done" : "running"));
    }
    database.exec(
        "INSERT INTO series(id, run_id, name, n, first_step, last_step, first_value, last_value, min_value, min_step, "
        "  max_value, max_step, sum, nan_count, inf_count) VALUES(1, 1, 'loss', 3, 1, 3, 0.5, 0.125, 0.125, 3, 0.5, 1, "
        "0.875, 0, 0);"
        "INSERT INTO param VALUES(1, 'optimizer.lr', 'float', 0.1);"
        "INSERT INTO tag VALUES(1, 'best'); INSERT INTO event VALUES(1, 1, 1, 5, 'info', 'hello', '{}');"
        "INSERT INTO state(id, run_id, attempt, step, epoch, reason, pinned, bytes, new_bytes, created_ms) "
        "VALUES(7, 1, 1, 3, 0, 'end', 0, 3, 3, 0);"
        "INSERT INTO section VALUES(7, 0, 'w', '', 3)");
    const std::vector<Point> points{{1, 10, 0.5}, {2, 20, 0.25}, {3, 30, 0.125}};
    if (has_encoded_points(GetParam())) {
      const auto chunk = encode_points(points);
      Statement(database, "INSERT INTO chunk(id, series_id, no, n, max_step, data) VALUES(1, 1, 0, 3, 3, ?1)")
          .bind(std::span<const std::byte>(chunk))
          .run();
    } else {
      MetricTables(database).put_chunk(1, 0, points);
    }
    const Sha256Digest digest = sha256("abc");
    Statement(database, "INSERT INTO content VALUES(1, ?1, CAST('abc' AS BLOB))")
        .bind(std::as_bytes(std::span(digest)))
        .run();
    database.exec("INSERT INTO section_content VALUES(7, 0, 0, 1); PRAGMA wal_checkpoint(TRUNCATE)");
  }

  std::string ask(const std::string& sql) {
    std::string text;
    const SqlResult result = sql_query(path, sql);
    for (const auto& value : result.rows.at(0)) {
      text += text.empty() ? "" : "|";
      if (const auto* integer = std::get_if<int64_t>(&value)) text += std::to_string(*integer);
      if (const auto* word = std::get_if<std::string>(&value)) text += *word;
      if (const auto* number = std::get_if<double>(&value)) text += fmt::format("{}", *number);
    }
    return text;
  }
};

TEST_P(OlderLayout, ReadsLikeTheNewest) {
  const std::string before = read_text(path);
  {
    Store store = open_to_read();
    EXPECT_EQ(list_runs(store).size(), 2u);
    const RunRow run = find_run(store, "0000000001");
    const RunDetails details = show_run(store, run);
    EXPECT_EQ(run.status, RunStatus::kDone);
    EXPECT_EQ(run.tags, std::vector<std::string>{"best"});
    EXPECT_EQ(details.metrics.at(0).sum, 0.875);
    EXPECT_EQ(details.events.at(0).kind, "hello");
    EXPECT_TRUE(details.artifacts.empty());
    EXPECT_TRUE(details.provenance.empty());
    EXPECT_EQ(metric_points(store, run, "loss").size(), 3u);
    EXPECT_EQ(load_state(store, 7).at("w").bytes.size(), 3u);
    EXPECT_EQ(find_run(store, "0000000002").status, RunStatus::kCrashed);
    EXPECT_NE(error_of([&] { add_tag(store, run.id, "x"); }), "no error");
  }
  EXPECT_EQ(read_text(path), before);
  EXPECT_EQ(folder.listing(), "runner.db");
}

TEST_P(OlderLayout, HasEveryView) {
  const std::string before = read_text(path);
  for (const std::string_view view : kViews) {
    EXPECT_EQ(error_of([&] { ask(fmt::format("SELECT count(*) FROM {}", view)); }), "no error") << view;
  }
  EXPECT_EQ(ask("SELECT group_concat(status) FROM (SELECT status FROM runs ORDER BY run)"), "done,crashed");
  EXPECT_EQ(ask("SELECT group_concat(status) FROM (SELECT status FROM attempts ORDER BY run)"), "done,crashed");
  EXPECT_EQ(ask("SELECT metric, n, mean * 24, bytes > 10 FROM metrics"), "loss|3|7|1");
  EXPECT_EQ(ask("SELECT sum(step), sum(value) FROM points"), "6|0.875");
  EXPECT_EQ(ask("SELECT state, step, reason FROM states"), "7|3|end");
  EXPECT_EQ(ask("SELECT count(*) FROM artifacts"), "0");
  EXPECT_EQ(read_text(path), before);
}

// Compares every table and view of the newest layout column by column.
TEST_P(OlderLayout, HasEveryColumn) {
  const fs::path newest = folder / "newest.db";
  Store::open(newest, Access::kWrite);
  for (const auto& row :
       sql_query(newest, "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'")
           .rows) {
    const std::string columns =
        fmt::format("SELECT group_concat(name) FROM pragma_table_info('{}')", std::get<std::string>(row[0]));
    EXPECT_EQ(sql_query(path, columns).rows, sql_query(newest, columns).rows) << columns;
  }
}

TEST_P(OlderLayout, ReadableInAReadOnlyFolder) {
  fs::permissions(path, fs::perms(0444));
  fs::permissions(folder.path(), fs::perms(0555));
  EXPECT_TRUE(as_unprivileged_user([&] {
    Store store = open_to_read();
    return list_runs(store).size() == 2 && show_run(store, find_run(store, "0000000001")).artifacts.empty();
  }));
}

TEST_P(OlderLayout, MigratedByTheFirstWriter) {
  {
    Store store = open_to_write();
    EXPECT_EQ(store.database().query_int64("PRAGMA user_version"), std::ssize(migrations()));
    EXPECT_EQ(load_state(store, 7).at("w").bytes.size(), 3u);
    EXPECT_EQ(find_run(store, "0000000001").tags, std::vector<std::string>{"best"});
    EXPECT_EQ(metric_points(store, find_run(store, "0000000001"), "loss").size(), 3u);
  }
  EXPECT_EQ(ask("SELECT sum(step), sum(value), sum(time_ms) FROM points"), "6|0.875|60");
  EXPECT_EQ(ask("SELECT count(*) FROM artifacts"), "0");
}

// A chunk of an older layout becomes several; one that is damaged stays so, and its metric is named.
TEST_F(StoreTest, EncodedPointsAreConverted) {
  std::vector<Point> points;
  for (int64_t step = 1; step <= 1500; ++step)
    points.push_back({step * step, 1'700'000'000'000 + 7 * step, step == 700 ? kNan : loss_of(step)});
  {
    Database database(path, OpenMode::kCreate);
    apply_migrations(database, 0, kFirstVersionWithPointColumns - 1);
    database.exec(fmt::format(
        "PRAGMA application_id = {}; PRAGMA user_version = {}; INSERT INTO recipe VALUES(1, X'00', '', '', '{{}}', "
        "'{{}}');"
        "INSERT INTO run(id, uid, name, seed, created_ms, attempts) VALUES(1, '0000000001', 'digits', 42, 0, 1);"
        "INSERT INTO attempt(run_id, no, recipe_id, start_step, backend, num_processes, cpu_features, kernels, "
        "  binary_version, host, pid, pid_start, boot_id, pid_namespace, started_ms, heartbeat_ms, status, "
        "  superseded_points) "
        "VALUES(1, 1, 1, 0, 'cpu', 1, '', '{{}}', '', 'gone', 1, 1, 'boot', '', 0, 500, 'done', 0)",
        kApplicationId, kFirstVersionWithPointColumns - 1));
    for (const int64_t series : {1, 2}) {
      Statement(database,
                "INSERT INTO series(id, run_id, name, n, first_step, last_step, min_step, max_step, sum, nan_count, "
                "inf_count) VALUES(?1, 1, ?2, 1500, 1, 2250000, 1, 2250000, 0, 1, 0)")
          .bind(series, series == 1 ? "loss" : "broken")
          .run();
      Statement chunk(database, "INSERT INTO chunk(series_id, no, n, max_step, data) VALUES(?1, ?2, ?3, ?4, ?5)");
      for (size_t first = 0; first < points.size(); first += kEncodedPoints) {
        const auto part = std::span(points).subspan(first, std::min(kEncodedPoints, points.size() - first));
        std::vector<std::byte> data = encode_points(part);
        if (series == 2 && first > 0) data[20] ^= std::byte{1};
        chunk.bind(series, static_cast<int64_t>(first / kEncodedPoints), std::ssize(part), part.back().step,
                   std::span<const std::byte>(data));
        chunk.run();
      }
    }
  }
  Store store = open_to_write();
  const RunRow run = find_run(store, "0000000001");
  const std::vector<Point> converted = metric_points(store, run, "loss");
  ASSERT_EQ(converted.size(), points.size());
  for (size_t i = 0; i < points.size(); ++i) {
    EXPECT_EQ(converted[i].step, points[i].step);
    EXPECT_EQ(converted[i].time_ms, points[i].time_ms);
    EXPECT_TRUE(converted[i].value == points[i].value || i == 699) << i;
  }
  EXPECT_TRUE(std::isnan(converted[699].value));
  EXPECT_EQ(
      error_of([&] { metric_points(store, run, "broken"); }),
      fmt::format("store: the store {} is damaged: chunk 16 of the points of broken fails its checksum; restore a "
                  "backup; other metrics can still be read",
                  path.string()));
  EXPECT_EQ(store.database().query_int64("SELECT count(*) FROM points WHERE metric = 'broken'"), 512);
}

// All layouts; the newest one needs no compatibility code.
INSTANTIATE_TEST_SUITE_P(Versions, OlderLayout, ::testing::Range(size_t{1}, migrations().size() + 1));

}  // namespace
}  // namespace runner::store
