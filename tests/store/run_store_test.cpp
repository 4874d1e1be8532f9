#include "store/run_store.h"

#include <cmath>
#include <set>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "schema/base/clock.h"
#include "store/metric_tables.h"
#include "store/process.h"
#include "store/removal.h"
#include "store/series_writer.h"
#include "store/sqlite.h"
#include "tests/store/sample_values.h"
#include "tests/store/temp_store.h"

namespace runner::store {
namespace {

class RunStore : public WritableStoreTest {
 protected:
  // Records value(step) for the steps first … last of a metric.
  void record(const RunHandle& run, const std::string& metric, int64_t first, int64_t last, double (*value)(int64_t)) {
    SeriesWriter series(store.database(), run.id);
    series.add_series(metric);
    for (int64_t step = first; step <= last; ++step) series.add(0, {step, 1000 * step, value(step)});
    Transaction transaction(store.database(), Transaction::Kind::kWrite);
    series.write();
    transaction.commit();
  }
};

TEST_F(RunStore, UidsSortByTimeAndDiffer) {
  std::string before;
  for (int i = 0; i < 5000; ++i) {
    const std::string uid = new_run_uid();
    ASSERT_EQ(uid.size(), 10u);
    EXPECT_EQ(uid.find_first_not_of("0123456789abcdefghjkmnpqrstvwxyz"), std::string::npos) << uid;
    EXPECT_GT(uid, before);
    before = uid;
  }
}

TEST_F(RunStore, KeepsEverythingAboutARun) {
  RunInfo info = sample_run();
  info.attempt.params = {{"a", std::monostate{}}, {"b", true},          {"c", int64_t{-7}}, {"d", 0.1},
                         {"e", std::string("x")}, {"f", std::string()}, {"g", kNan},        {"h", std::string("7")}};
  info.attempt.cpu_features = "avx2 fma";
  info.attempt.kernels_json = R"({"matmul":"dnnl"})";
  info.attempt.num_processes = 4;
  const RunHandle handle = create_run(store, info);
  add_tag(store, handle.id, "baseline");
  add_tag(store, handle.id, "baseline");
  add_tag(store, handle.id, "a b");
  add_note(store, handle.id, "looks good");
  finish_run(store, handle, {RunStatus::kFailed, 1, "loss is NaN", R"({"run":"x"})"});

  const RunDetails details = show_run(store, find_run(store, info.uid));
  EXPECT_EQ(details.run.name, "digits");
  EXPECT_EQ(details.run.status, RunStatus::kFailed);
  EXPECT_EQ(details.run.exit_code, 1);
  EXPECT_EQ(details.run.reason, "loss is NaN");
  EXPECT_EQ(details.run.summary_json, R"({"run":"x"})");
  EXPECT_EQ(details.run.seed, 42);
  EXPECT_EQ(details.run.backend, "cpu");
  EXPECT_EQ(details.run.num_processes, 4);
  EXPECT_EQ(details.run.cpu_features, "avx2 fma");
  EXPECT_EQ(details.run.kernels_json, R"({"matmul":"dnnl"})");
  EXPECT_EQ(details.run.binary_version, "0.1.0");
  EXPECT_EQ(details.run.pid, ::getpid());
  EXPECT_EQ(details.run.tags, (std::vector<std::string>{"a b", "baseline"}));
  EXPECT_LE(details.run.created_ms, *details.run.ended_ms);
  EXPECT_EQ(details.recipe.text, "name: digits\n");
  EXPECT_EQ(details.recipe.origins_json, R"({"name":"recipe.yaml:1"})");
  ASSERT_EQ(details.params.size(), info.attempt.params.size());
  for (size_t i = 0; i < details.params.size(); ++i) {
    EXPECT_EQ(details.params[i].key, info.attempt.params[i].key);
    if (details.params[i].key == "g") {
      EXPECT_TRUE(std::isnan(std::get<double>(details.params[i].value)));
    } else {
      EXPECT_EQ(details.params[i].value, info.attempt.params[i].value) << details.params[i].key;
    }
  }
  ASSERT_EQ(details.notes.size(), 1u);
  EXPECT_EQ(details.notes[0].text, "looks good");

  remove_tag(store, handle.id, "baseline");
  remove_tag(store, handle.id, "absent");
  EXPECT_EQ(find_run(store, info.uid).tags, std::vector<std::string>{"a b"});
}

TEST_F(RunStore, EqualRecipesAreStoredOnce) {
  create_run(store, sample_run());
  create_run(store, sample_run());
  EXPECT_EQ(count("recipe"), 1);
  RunInfo other = sample_run();
  other.attempt.recipe.text += "# a comment\n";
  create_run(store, other);
  EXPECT_EQ(count("recipe"), 2);
}

TEST_F(RunStore, AForkNamesItsParent) {
  const RunInfo parent = sample_run();
  create_run(store, parent);
  RunInfo child = sample_run("child");
  child.parent = parent.uid;
  create_run(store, child);
  EXPECT_EQ(find_run(store, "child").parent, parent.uid);

  child.uid = new_run_uid();
  child.parent = "0000000000";
  EXPECT_EQ(error_of([&] { create_run(store, child); }),
            fmt::format("not found: no run 0000000000 in {} to fork from", path.string()));
  EXPECT_EQ(count("run"), 2);
}

double falling(int64_t step) {
  return 1.0 / static_cast<double>(step);
}
double rising(int64_t step) {
  return static_cast<double>(step) / 3.0;
}
double strange(int64_t step) {
  return step % 7 == 0 ? kNan : step % 11 == 0 ? HUGE_VAL : std::sin(static_cast<double>(step));
}

// After a resume from step k, the metrics must equal those of an uninterrupted run at step k.
TEST_F(RunStore, ResumeRemovesLaterPoints) {
  for (const int64_t start : {0, 1, 511, 512, 513, 700, 1300, 2000}) {
    const RunHandle crashed = create_run(store, sample_run());
    const RunHandle clean = create_run(store, sample_run());
    for (auto [metric, value] : std::vector<std::pair<const char*, double (*)(int64_t)>>{
             {"up", rising}, {"down", falling}, {"odd", strange}}) {
      record(crashed, metric, 1, 1300, value);
      if (start > 0) record(clean, metric, 1, std::min<int64_t>(start, 1300), value);
    }
    AttemptInfo again = sample_run().attempt;
    again.start_step = start;
    const RunHandle resumed = begin_attempt(store, crashed.uid, again);
    EXPECT_EQ(resumed.attempt, 2);
    const auto wanted = list_metrics(store, clean.id), got = list_metrics(store, crashed.id);
    ASSERT_EQ(got.size(), wanted.size()) << start;
    for (size_t i = 0; i < got.size(); ++i) {
      const auto facts = [](const MetricSummary& m) {
        return fmt::format("{} n {} first {}:{} last {}:{} min {}:{} max {}:{} sum {} nan {} inf {}", m.name, m.n,
                           m.first_step, m.first, m.last_step, m.last, m.min_step, m.min, m.max_step, m.max, m.sum,
                           m.nan_count, m.inf_count);
      };
      EXPECT_EQ(facts(got[i]), facts(wanted[i])) << start;
      const auto points = metric_points(store, find_run(store, crashed.uid), got[i].name);
      ASSERT_EQ(static_cast<int64_t>(points.size()), got[i].n);
      EXPECT_EQ(points.back().step, std::min<int64_t>(start, 1300));
    }
    const RunDetails details = show_run(store, find_run(store, crashed.uid));
    EXPECT_EQ(details.attempts[1].superseded_points, 3 * std::max<int64_t>(0, 1300 - start));
    EXPECT_EQ(details.attempts[0].status, RunStatus::kCrashed);
    EXPECT_EQ(details.run.status, RunStatus::kRunning);
  }
}

// For a checkpoint saved within a step, points of that step that are older than the checkpoint are kept.
TEST_F(RunStore, ResumeWithinAStepRemovesPointsByTime) {
  const RunHandle run = create_run(store, sample_run());
  record(run, "loss", 1, 2, rising);  // one second per step
  record(run, "eval", 2, 3, rising);
  AttemptInfo again = sample_run().attempt;
  again.start_step = 2;
  again.start_ms = 2000;
  begin_attempt(store, run.uid, again);
  ASSERT_EQ(list_metrics(store, run.id).size(), 2u);

  again.start_ms = 1999;
  record(run, "more", 1, 2, rising);
  begin_attempt(store, run.uid, again);
  const std::vector<MetricSummary> metrics = list_metrics(store, run.id);
  ASSERT_EQ(metrics.size(), 2u);  // eval has been removed
  for (const MetricSummary& metric : metrics) {
    EXPECT_EQ(metric.n, 1) << metric.name;
    EXPECT_EQ(metric.last_step, 1) << metric.name;
  }
}

TEST_F(RunStore, PointsOfSeveralAttemptsFollowEachOther) {
  const RunHandle first = create_run(store, sample_run());
  record(first, "loss", 1, 700, rising);
  AttemptInfo again = sample_run().attempt;
  again.start_step = 600;
  const RunHandle second = begin_attempt(store, first.uid, again);
  record(second, "loss", 601, 1400, falling);
  const auto points = metric_points(store, find_run(store, first.uid), "loss");
  ASSERT_EQ(points.size(), 1400u);
  MetricSummary summary;
  for (int64_t step = 1; step <= 1400; ++step) {
    const Point& point = points[static_cast<size_t>(step - 1)];
    EXPECT_EQ(point.step, step);
    EXPECT_EQ(point.value, step <= 600 ? rising(step) : falling(step));
    summary.add(point);
  }
  const MetricSummary stored = list_metrics(store, first.id).at(0);
  EXPECT_EQ(stored.sum, summary.sum);
  EXPECT_EQ(stored.min, summary.min);
  EXPECT_EQ(stored.max, summary.max);
}

TEST_F(RunStore, ResumingAnUnknownRunIsAnError) {
  EXPECT_EQ(error_of([&] { begin_attempt(store, "nothere", {}); }),
            fmt::format("not found: no run nothere in {}", path.string()));
}

// Runs `work` in a child process, which stays alive until this object is destroyed.
class Child {
 public:
  template <class Work>
  explicit Child(Work work) {
    int ready[2];
    EXPECT_EQ(::pipe(ready), 0);
    EXPECT_EQ(::pipe(hold_), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(hold_[1]);
      work();
      char byte = 1;
      static_cast<void>(!::write(ready[1], &byte, 1));
      static_cast<void>(!::read(hold_[0], &byte, 1));
      ::_exit(0);
    }
    ::close(hold_[0]);
    ::close(ready[1]);
    char byte = 0;
    EXPECT_EQ(::read(ready[0], &byte, 1), 1);
    ::close(ready[0]);
  }
  ~Child() {
    ::close(hold_[1]);
    ::waitpid(pid_, nullptr, 0);
  }
  void kill_without_burial() const { ::kill(pid_, SIGKILL); }
  pid_t pid() const { return pid_; }

 private:
  int hold_[2]{};
  pid_t pid_ = 0;
};

TEST(RunLife, RunWithoutProcessReadsAsCrashed) {
  TempFolder folder;
  const fs::path path = folder / "runner.db";
  const RunInfo info = sample_run();
  {
    Child child([&] {
      Store store = Store::open(path, Access::kWrite);
      create_run(store, info);
    });
    Store store = Store::open(path, Access::kWrite);
    EXPECT_EQ(find_run(store, info.uid).status, RunStatus::kRunning);
    EXPECT_EQ(std::get<std::string>(sql_query(path, "SELECT status FROM runs").rows.at(0).at(0)), "running");
    const std::string host = find_run(store, info.uid).host;
    EXPECT_EQ(error_of([&] { begin_attempt(store, info.uid, info.attempt); }),
              fmt::format("usage: run {} is still running as process {} on {}; stop that process, then resume the run",
                          info.uid, child.pid(), host));
    EXPECT_EQ(error_of([&] { remove_run(store, find_run(store, info.uid).id); }),
              fmt::format("usage: run {} is still running as process {} on {}; stop that process, then remove the run",
                          info.uid, child.pid(), host));
    child.kill_without_burial();
    // A zombie is still listed in /proc but counts as dead.
    while (find_run(store, info.uid).status == RunStatus::kRunning) {
    }
    EXPECT_EQ(find_run(store, info.uid).status, RunStatus::kCrashed);
  }
  Store store = Store::open(path, Access::kWrite);
  EXPECT_EQ(find_run(store, info.uid).status, RunStatus::kCrashed);
  EXPECT_EQ(std::get<std::string>(sql_query(path, "SELECT status FROM runs").rows.at(0).at(0)), "crashed");
  EXPECT_EQ(store.database().query_text("SELECT status FROM runs"), "running");  // as stored in the file
  EXPECT_EQ(begin_attempt(store, info.uid, info.attempt).attempt, 2);
  EXPECT_EQ(find_run(store, info.uid).status, RunStatus::kRunning);
}

// Simulates a run that another process resumed while it was being moved to the trash.
TEST(RunLife, EmptyingTheTrashPassesOverWhatRuns) {
  TempFolder folder;
  const fs::path path = folder / "runner.db";
  const RunInfo before = sample_run(), running = sample_run(), after = sample_run();
  Child child([&] {
    Store store = Store::open(path, Access::kWrite);
    create_run(store, running);
  });
  Store store = Store::open(path, Access::kWrite);
  for (const RunInfo* info : {&before, &after}) create_run(store, *info);
  store.database().exec("UPDATE run SET trashed_ms = 1");
  const PurgeResult emptied = empty_trash(store, 0);
  EXPECT_EQ(emptied.removed, (std::vector<std::string>{after.uid, before.uid}));
  ASSERT_EQ(emptied.kept.size(), 1u);
  EXPECT_EQ(emptied.kept[0].uid, running.uid);
  EXPECT_TRUE(emptied.kept[0].reason.starts_with(fmt::format("run {} is still running", running.uid)));
}

TEST_F(RunStore, TrashedRunCannotBeResumed) {
  const RunHandle run = create_run(store, sample_run());
  trash_run(store, run.id);
  EXPECT_EQ(error_of([&] { begin_attempt(store, run.uid, sample_run().attempt); }),
            fmt::format("not found: run {} is in the trash; `runner restore {}` restores it", run.uid, run.uid));
  EXPECT_EQ(count("attempt"), 1);
  restore_run(store, run.id);
  EXPECT_EQ(begin_attempt(store, run.uid, sample_run().attempt).attempt, 2);
}

TEST(RunLife, ProcessIsIdentifiedByBootPidAndStart) {
  const Process self = this_process();
  const int64_t now = now_ms();
  EXPECT_TRUE(is_running(self, 0, now));
  Process reused = self;
  reused.start_ticks -= 1;
  EXPECT_FALSE(is_running(reused, now, now));
  Process rebooted = self;
  rebooted.boot_id = "other";
  EXPECT_FALSE(is_running(rebooted, now, now));
  // A process on another host or in another container cannot be looked up: its heartbeat decides.
  Process elsewhere = rebooted;
  elsewhere.host = "elsewhere";
  EXPECT_TRUE(is_running(elsewhere, now - 59'000, now));
  EXPECT_FALSE(is_running(elsewhere, now - 61'000, now));
  Process container = self;
  container.pid_namespace = "pid:[1]";
  EXPECT_TRUE(is_running(container, now, now));
  EXPECT_FALSE(is_running(container, now - 61'000, now));
}

// This pid is never in use, so looking it up fails as it would without access to /proc.
TEST(RunLife, UnidentifiedProcessIsJudgedByItsHeartbeat) {
  const int64_t now = now_ms();
  Process blind = this_process();
  blind.pid = int64_t{1} << 40;
  EXPECT_FALSE(is_running(blind, now, now));
  blind.start_ticks = -1;
  EXPECT_TRUE(is_running(blind, now - 59'000, now));
  EXPECT_FALSE(is_running(blind, now - 61'000, now));
  blind = this_process();
  blind.boot_id.clear();
  EXPECT_TRUE(is_running(blind, now - 59'000, now));
  EXPECT_FALSE(is_running(blind, now - 61'000, now));
}

TEST_F(RunStore, RemovingARunRemovesAllOfIt) {
  const RunHandle parent = create_run(store, sample_run());
  record(parent, "loss", 1, 600, rising);
  const auto bytes = bytes_of("weights");
  save_state(store, parent, {}, std::vector<SectionView>{{"w", "{}", bytes}});
  add_tag(store, parent.id, "x");
  add_note(store, parent.id, "y");
  RunInfo child = sample_run("child");
  child.parent = parent.uid;
  create_run(store, child);

  remove_run(store, parent.id);
  for (const char* table : {"series", "chunk", "state", "section", "section_content", "content", "tag", "note"}) {
    EXPECT_EQ(count(table), 0) << table;
  }
  EXPECT_EQ(count("run"), 1);
  EXPECT_EQ(find_run(store, "child").parent, "");
}

TEST_F(RunStore, CollectingGarbageShrinksTheFile) {
  const RunHandle run = create_run(store, sample_run());
  const std::string weights(3'000'000, 'w');
  save_state(store, run, {}, std::vector<SectionView>{{"w", "{}", bytes_of(weights)}}, 1000);
  std::string noise(3'000'000, 0);
  for (size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<char>(i * i / 1000);
  save_state(store, run, {}, std::vector<SectionView>{{"n", "{}", bytes_of(noise)}});
  const RunHandle other = create_run(store, sample_run("other"));
  remove_run(store, run.id);
  {
    Store reader = Store::open(store.path(), Access::kRead);
    const Transaction snapshot(reader.database(), Transaction::Kind::kRead);
    EXPECT_EQ(reader.database().query_int64("SELECT count(*) FROM run"), 1);
    collect_garbage(store);
    EXPECT_GT(held_bytes(store), 2'500'000) << "the reader still sees the old pages";
  }
  EXPECT_GT(collect_garbage(store), 2'500'000);
  EXPECT_EQ(held_bytes(store), 0);
  EXPECT_EQ(collect_garbage(store), 0);
  EXPECT_EQ(find_run(store, "other").id, other.id);
}

}  // namespace
}  // namespace runner::store
