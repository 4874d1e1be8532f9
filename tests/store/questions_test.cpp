// The ten questions of docs/store.md: runs each SQL block of the document on a store with known answers.
#include <cmath>
#include <map>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/device_report.h"
#include "store/queries.h"
#include "store/removal.h"
#include "store/run_writer.h"
#include "store/sqlite.h"
#include "tests/store/temp_store.h"
#include "tests/support/paths.h"

namespace runner::store {
namespace {

// Returns the SQL block below each heading "### N. Question" of the document.
std::map<std::string, std::string> questions() {
  std::map<std::string, std::string> found;
  const std::string text = read_text(support::source_path("docs/store.md"));
  const std::string fence = "```sql\n";
  for (size_t at = text.find(fence); at != std::string::npos; at = text.find(fence, at + 1)) {
    const size_t heading = text.rfind("\n### ", at) + 5;
    const size_t sql = at + fence.size();
    found[text.substr(heading, text.find('\n', heading) - heading)] = text.substr(sql, text.find("```", sql) - sql);
  }
  return found;
}

// Returns rows as lines, with columns separated by |.
std::string text_of(const SqlResult& result) {
  struct Text {
    std::string operator()(std::monostate) const { return "null"; }
    std::string operator()(const std::vector<std::byte>&) const { return "bytes"; }
    std::string operator()(const std::string& value) const { return value; }
    std::string operator()(int64_t value) const { return fmt::format("{}", value); }
    std::string operator()(double value) const { return fmt::format("{}", value); }
  };
  std::string text;
  for (const auto& row : result.rows) {
    for (size_t i = 0; i < row.size(); ++i) text += (i == 0 ? "" : "|") + std::visit(Text{}, row[i]);
    text += '\n';
  }
  return text;
}

struct Sample {
  const char* uid;
  const char* name;
  double lr;
  const char* data;
  std::vector<double> loss;  // at steps 1, 2, …
  double accuracy;           // NaN: not evaluated
  const char* threads;
};

// Records a run like a training run. `end`: null leaves the run without an end and exits the process.
void record(const fs::path& path, const Sample& sample, const RunEnd* end) {
  RunInfo info = sample_run(sample.name);
  info.uid = sample.uid;
  info.attempt.params = {
      {"optimizer.lr", sample.lr}, {"data.train.path", std::string(sample.data)}, {"seed", int64_t{1}}};
  RunWriter writer(Store::open(path, Access::kWrite), info);
  for (size_t i = 0; i < sample.loss.size(); ++i)
    writer.push(writer.series("train/loss"), static_cast<int64_t>(i) + 1, sample.loss[i]);
  const auto last = static_cast<int64_t>(sample.loss.size());
  if (!std::isnan(sample.accuracy)) writer.push(writer.series("eval/accuracy"), last, sample.accuracy);
  Provenance provenance;
  provenance.git = {std::string("52c6d14") + sample.data[0], "main", sample.lr > 0.005, {}, ""};
  provenance.environment_json = fmt::format(R"({{"cpu":"EPYC","env.OMP_NUM_THREADS":"{}"}})", sample.threads);
  writer.provenance(provenance);
  for (const int64_t step : {last / 2, last}) {
    StateSnapshot snapshot = writer.snapshot();
    snapshot.header.step = step;
    snapshot.header.reason = step == last ? "end" : "schedule";
    const std::string frozen(1000, 'f'), weights(static_cast<size_t>(100 * step), sample.uid[4]);
    snapshot.add("frozen", "", bytes_of(frozen));
    snapshot.add("weights", "", bytes_of(weights));
    writer.save_state(std::move(snapshot)).get();
  }
  const std::string table(static_cast<size_t>(7 * last), sample.uid[5]);
  const auto bytes = bytes_of(table);
  writer.save_artifact({"errors.csv", "table", "", last}, std::vector(bytes.begin(), bytes.end()));
  if (end == nullptr) {
    writer.event(Level::kWarning, "warning", R"({"step":2,"text":"the disk is slow"})");
    writer.flush();
    ::_exit(0);
  }
  if (end->exit_code != 0) writer.event(Level::kError, "failure", R"({"step":1,"text":"the loss is nan"})");
  writer.finish(*end);
}

class Questions : public StoreTest {
 protected:
  void SetUp() override {
    const double nan = std::nan("");
    const RunEnd done{RunStatus::kDone, 0, "", "{}"}, failed{RunStatus::kFailed, 1, "the loss is nan", "{}"};
    record(path, {"1kq3vtz7m2", "digits", 0.001, "digits.csv", {2, 1, 0.5, 0.25}, 0.9, "1"}, &done);
    record(path, {"1kq41x0c9d", "digits", 0.01, "digits.csv", {2, 0.5, 0.25, 0.125, 0.0625, 0.03125}, 0.95, "2"},
           &done);
    record(path, {"1kq4b2r5hh", "digits", 1, "digits.csv", {2, nan}, nan, "1"}, &failed);
    const pid_t child = ::fork();
    if (child == 0) record(path, {"1kq4cw8e0n", "wine", 1, "wine.csv", {2, 3}, 0.5, "1"}, nullptr);
    ::waitpid(child, nullptr, 0);
    // Sets times as if the runs had trained for 4, 12, 1 and 3 seconds, one after the other.
    Database database(path, OpenMode::kReadWrite);
    database.exec(
        "UPDATE run SET created_ms = 1700000000000 + 60000 * id;"
        "UPDATE attempt SET started_ms = 1700000000000 + 60000 * run_id;"
        "UPDATE attempt SET heartbeat_ms = started_ms + 1000 * CASE run_id WHEN 1 THEN 4 WHEN 2 THEN 12 WHEN 3 THEN 1 "
        "ELSE 3 END;"
        "UPDATE attempt SET ended_ms = heartbeat_ms WHERE status <> 'running'");
  }
};

TEST_F(Questions, ManualQueriesReturnTheExpectedRows) {
  // A trashed run that would otherwise be in nearly all answers.
  const RunEnd failed{RunStatus::kFailed, 1, "the loss is nan", "{}"};
  record(path, {"1kq4dthr0w", "digits", 1, "digits.csv", {2, 1}, 0.99, "1"}, &failed);
  {
    Store store = open_to_write();
    trash_run(store, find_run(store, "1kq4dthr0w").id);
  }
  const std::map<std::string, std::string> answers{
      {"1. Which runs are best, and what made them so?",
       "1kq41x0c9d|0.95|6|0.01|52c6d14d\n1kq3vtz7m2|0.9|4|0.001|52c6d14d\n1kq4cw8e0n|0.5|2|1|52c6d14w\n"},
      {"2. What differs between two runs?", "environment: env.OMP_NUM_THREADS|1|2\noptimizer.lr|0.001|0.01\n"},
      {"3. Which learning rates failed?", "0.001|1|0\n0.01|1|0\n1|2|2\n"},
      {"4. How do two curves compare, step by step?",
       "1|2|2\n2|1|0.5\n3|0.5|0.25\n4|0.25|0.125\n5|null|0.0625\n6|null|0.03125\n"},
      // (4 + 12 + 1) s in (4 + 6 + 2) steps; 3 s in 2 steps.
      {"5. How long does a step take, over all runs?", "digits|cpu|3|1416.667\nwine|cpu|1|1500\n"},
      {"6. Which runs could be resumed, and from which state?",
       "1kq4cw8e0n|wine|crashed|8|2|end\n1kq4b2r5hh|digits|failed|6|2|end\n"},
      // The 1,000 frozen bytes count for the first run only. The size of the points depends on their times.
      {"7. What does a run cost in bytes?",
       "1kq3vtz7m2|digits|1600|28\n1kq41x0c9d|digits|900|42\n1kq4cw8e0n|wine|300|14\n1kq4b2r5hh|digits|300|14\n"},
      {"8. Which runs used this version of the code, and this data?",
       "1kq3vtz7m2|digits|main|0|digits.csv\n1kq41x0c9d|digits|main|1|digits.csv\n1kq4b2r5hh|digits|main|1|digits."
       "csv\n"},
      {"9. Which runs went wrong, and why?",
       "1kq4cw8e0n|crashed|the process is gone|the disk is slow\n"
       "1kq4b2r5hh|failed|the loss is nan|the loss is nan\n"},
      {"10. Which artifacts does the best run have?",
       "errors.csv|table|6|42|2b2573d5ea0b352e24bebd015f3fe83693a5b81a6252cf811b65dcf6a5037def\n"},
  };
  const std::map<std::string, std::string> asked = questions();
  EXPECT_EQ(asked.size(), 10u);
  for (const auto& [question, sql] : asked) {
    ASSERT_TRUE(answers.contains(question)) << question;
    SqlResult result = sql_query(path, sql);
    if (result.columns.back() == "points") {
      for (auto& row : result.rows) row.pop_back();
    }
    EXPECT_EQ(text_of(result), answers.at(question)) << question;
  }
}

// Covers all views, including future ones.
TEST_F(Questions, ViewsExcludeTrashedRuns) {
  Store store = open_to_write();
  const RunRow run = find_run(store, "1kq4b2r5hh");
  {
    Transaction transaction(store.database(), Transaction::Kind::kWrite);
    put_provenance(
        store, {run.id, 1, run.uid},
        {{}, R"({"cpu":"EPYC"})", {{"include", "base.yaml", "seed: 1"}}, {{"data.train.path", "a.csv", 1, 2}}});
    GraphRow graph;
    graph.texts = std::make_shared<const GraphTexts>();
    put_device_report(store, {run.id, 1, run.uid}, {1, {graph}, "{}"});
    transaction.commit();
  }
  std::vector<std::string> views;
  Statement names(store.database(), "SELECT name FROM sqlite_schema WHERE type = 'view'");
  while (names.step()) views.push_back(names.text(0));
  const auto count = [&](const std::string& view) {
    return std::get<int64_t>(
        sql_query(path, "SELECT count(*) FROM " + view + " WHERE run = '1kq4b2r5hh'").rows.at(0).at(0));
  };
  const auto counts = [&] {
    std::map<std::string, int64_t> all;
    for (const std::string& view : views) all[view] = count(view);
    return all;
  };
  const std::map<std::string, int64_t> before = counts();
  EXPECT_EQ(before.size(), 13u);
  for (const auto& [view, rows] : before) EXPECT_EQ(rows > 0, view != "trash") << view;
  trash_run(store, run.id);
  for (const auto& [view, rows] : counts()) EXPECT_EQ(rows, view == "trash" ? 1 : 0) << view;
  EXPECT_EQ(text_of(sql_query(path, "SELECT status, trashed IS NOT NULL FROM trash")), "failed|1\n");
  restore_run(store, run.id);
  EXPECT_EQ(counts(), before);
}

// Compares the cost in the view with the sizes in the underlying tables.
TEST_F(Questions, CostMatchesTheTables) {
  Database database(path, OpenMode::kReadWrite);
  const SqlResult cost = sql_query(path, questions().at("7. What does a run cost in bytes?"));
  int64_t states_and_artifacts = 0, points = 0;
  for (const auto& row : cost.rows) {
    states_and_artifacts += std::get<int64_t>(row[2]) + std::get<int64_t>(row[3]);
    points += std::get<int64_t>(row[4]);
  }
  EXPECT_EQ(states_and_artifacts, database.query_int64("SELECT sum(length(data)) FROM content"));
  EXPECT_GT(points, 0);
  EXPECT_EQ(points, 14 * database.query_int64("SELECT count(*) FROM points"));
}

}  // namespace
}  // namespace runner::store
