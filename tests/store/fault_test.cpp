// Committed data survives any disk failure. Recording a run is repeated with the 1st, 2nd, … file operation failing.

#include <gtest/gtest.h>
#include <sqlite3.h>

#include "store/queries.h"
#include "store/run_writer.h"
#include "store/sqlite.h"
#include "tests/store/fault_vfs.h"
#include "tests/store/sample_values.h"
#include "tests/store/temp_store.h"

namespace runner::store {
namespace {

using namespace std::chrono_literals;

// Data that calls have reported as committed.
struct Promised {
  bool run = false, finished = false;
  int64_t points = 0;
  int64_t state = 0, state_step = 0, artifact_step = 0;  // the newest ones
};

class Faults : public ::testing::Test {
 protected:
  // Calls `action`. If it fails and `again` is set, calls it once more, which must succeed. Returns whether it
  // succeeded. Every failure must be an Error(kStore) naming the store.
  template <class Action>
  bool attempt(bool again, Action action) {
    for (int tries = 0; tries < (again ? 2 : 1); ++tries) {
      try {
        action();
        return true;
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kStore) << error.what();
        EXPECT_NE(error.message().find(path.string()), std::string::npos) << error.what();
      }
    }
    EXPECT_FALSE(again) << "the second attempt failed too";
    return false;
  }

  // Records a run with `blocks` blocks of points and checkpoints; the last checkpoint prunes the first. `again`: passed
  // to attempt().
  Promised record(bool again, int64_t blocks = 3) {
    Promised promised;
    std::optional<Store> store;
    if (!attempt(again, [&] { store.emplace(Store::open(path, Access::kWrite)); })) return promised;
    RunWriter writer(std::move(*store), info, {.flush_every = 1h, .state_chunk_bytes = 2000});
    promised.run = attempt(again, [&] { writer.wait_until_recorded(); });
    const SeriesIndex loss = writer.series("loss");
    for (int64_t block = 0; block < blocks; ++block) {
      for (int64_t step = 300 * block + 1; step <= 300 * (block + 1); ++step) writer.push(loss, step, loss_of(step));
      if (attempt(again, [&] { writer.flush(); })) promised.points = 300 * (block + 1);
      attempt(again, [&] {
        StateSnapshot snapshot = writer.snapshot();
        snapshot.header.step = 300 * (block + 1);
        snapshot.add("frozen", "", bytes_of(weights_of(0)));
        snapshot.add("w", "", bytes_of(weights_of(snapshot.header.step)));
        const StateInfo state = writer.save_state(std::move(snapshot), {.keep_last = blocks - 1}).get();
        promised.state = state.id;
        promised.state_step = state.step;
        promised.points = state.step;
      });
      attempt(again, [&] {
        const std::string text = weights_of(300 * (block + 1));
        writer
            .save_artifact({"w", "", "", 300 * (block + 1)}, std::vector(bytes_of(text).begin(), bytes_of(text).end()))
            .get();
        promised.artifact_step = 300 * (block + 1);
      });
    }
    promised.finished = attempt(again, [&] { writer.finish({RunStatus::kDone, 0, "", "{}"}); });
    return promised;
  }

  void verify(const Promised& promised) {
    Store store = Store::open(path, Access::kWrite);
    EXPECT_EQ(store.database().query_text("PRAGMA integrity_check"), "ok");
    EXPECT_EQ(store.database().query_text("PRAGMA foreign_key_check"), "");
    if (!promised.run) return;
    const RunRow run = find_run(store, info.uid);
    // More may be there than was reported: a disk can fail after writing.
    if (promised.finished) {
      EXPECT_EQ(run.status, RunStatus::kDone);
    }
    if (promised.points > 0) {
      const auto points = metric_points(store, run, "loss");
      ASSERT_GE(static_cast<int64_t>(points.size()), promised.points);
      MetricSummary summary;
      for (const Point& point : points) {
        EXPECT_EQ(point.value, loss_of(point.step));
        summary.add(point);
      }
      const MetricSummary stored = list_metrics(store, run.id).at(0);
      EXPECT_EQ(stored.n, summary.n);
      EXPECT_EQ(stored.sum, summary.sum);
      EXPECT_EQ(stored.last_step, static_cast<int64_t>(points.size()));
    }
    const auto artifacts = list_artifacts(store, run.id);
    for (const ArtifactInfo& artifact : artifacts) {
      EXPECT_TRUE(std::ranges::equal(read_artifact(store, artifact), bytes_of(weights_of(artifact.header.step))));
    }
    if (promised.artifact_step > 0) {
      ASSERT_FALSE(artifacts.empty());
      EXPECT_GE(artifacts.back().header.step, promised.artifact_step);
    }
    const auto states = list_states(store, run.id);
    for (const StateInfo& state : states) {
      const LoadedState loaded = load_state(store, state.id);
      EXPECT_TRUE(std::ranges::equal(loaded.at("w").bytes, bytes_of(weights_of(state.step))));
      EXPECT_TRUE(std::ranges::equal(loaded.at("frozen").bytes, bytes_of(weights_of(0))));
    }
    if (promised.state > 0) {
      ASSERT_FALSE(states.empty());
      EXPECT_EQ(states[0].id, promised.state);
      EXPECT_EQ(states[0].step, promised.state_step);
    }
  }

  void remove_store() {
    for (const char* suffix : {"", "-wal", "-shm", "-journal"}) fs::remove(path.string() + suffix);
    info = sample_run();
  }

  // Repeats record() with the n-th operation failing, until there is no n-th operation. `from`: a store to start with;
  // if empty, record() creates it.
  int64_t sweep(FaultVfs::Plan plan, const fs::path& from, int64_t blocks) {
    int64_t n = 0;
    for (bool fired = true; fired && !HasFailure();) {
      SCOPED_TRACE(fmt::format("operation {} fails", ++n));
      remove_store();
      if (!from.empty()) fs::copy_file(from, path);
      plan.fail_at = n;
      vfs.arm(plan);
      const Promised promised = record(/*again=*/!plan.for_good, blocks);
      fired = vfs.fired();
      vfs.disarm();
      verify(promised);
    }
    return n;
  }

  // Creating a store dominates the time of a short run, so creation and recording are tested separately.
  void sweep(const FaultVfs::Plan& plan) {
    const fs::path made = folder / "made.db";
    { Store::open(made, Access::kWrite); }
    EXPECT_GT(sweep(plan, {}, /*blocks=*/0), 30);
    EXPECT_GT(sweep(plan, made, /*blocks=*/2), 100);  // the sweep has covered the whole run
  }

  TempFolder folder;
  fs::path path = folder / "runner.db";
  RunInfo info;
  FaultVfs vfs;
};

TEST_F(Faults, TransientIoErrorLosesNothing) {
  sweep({.code = SQLITE_IOERR});
}
TEST_F(Faults, TransientFullDiskLosesNothing) {
  sweep({.code = SQLITE_FULL});
}
TEST_F(Faults, PermanentIoErrorKeepsCommittedData) {
  sweep({.code = SQLITE_IOERR, .for_good = true});
}

TEST_F(Faults, DiskOfAnySizeKeepsCommittedData) {
  for (int64_t budget = 0; budget < 400'000; budget += 7'777) {
    SCOPED_TRACE(fmt::format("{} bytes", budget));
    remove_store();
    vfs.arm({.budget = budget});
    const Promised promised = record(/*again=*/false);
    vfs.disarm();
    verify(promised);
  }
}

// A WAL checkpoint opens the file a second time. Committed data is safe without the checkpoint.
TEST_F(Faults, FailedWalCheckpointIsNotAnError) {
  Store store = Store::open(path, Access::kWrite);
  int64_t n = 0;
  for (bool fired = true; fired;) {
    SCOPED_TRACE(fmt::format("operation {} fails", ++n));
    Store fresh = Store::open(path, Access::kWrite);
    create_run(fresh, sample_run());
    vfs.arm({.fail_at = n, .code = SQLITE_IOERR});
    EXPECT_EQ(error_of([&] { fresh.checkpoint(1); }), "no error");
    fired = vfs.fired();
    vfs.disarm();
  }
  EXPECT_GT(n, 4);
  EXPECT_EQ(list_runs(store).size(), static_cast<size_t>(n));
}

TEST_F(Faults, StateIsSavedIfTheWalCheckpointFails) {
  info = sample_run();
  RunWriter writer(Store::open(path, Access::kWrite), info, {.flush_every = 1h, .checkpoint_pages = 1});
  writer.wait_until_recorded();
  vfs.arm({.fail_at = 1, .code = SQLITE_IOERR, .for_good = true, .count = FaultVfs::Count::kOpens});
  StateSnapshot snapshot = writer.snapshot();
  snapshot.header.step = 5;
  snapshot.add("w", "", bytes_of("weights"));
  EXPECT_EQ(error_of([&] { EXPECT_EQ(writer.save_state(std::move(snapshot)).get().step, 5); }), "no error");
  EXPECT_TRUE(vfs.fired());
  vfs.disarm();
  EXPECT_EQ(writer.take_warnings(), std::vector<std::string>{});
  EXPECT_EQ(writer.counters().failures, 0);
  writer.finish({RunStatus::kDone, 0, "", "{}"});
}

// Every query either succeeds completely or throws an Error.
TEST_F(Faults, AReadErrorIsReported) {
  info = sample_run();
  const Promised promised = record(false);
  ASSERT_TRUE(promised.finished);
  int64_t n = 0;
  for (bool fired = true; fired;) {
    vfs.arm({.fail_at = ++n, .code = SQLITE_IOERR, .count = FaultVfs::Count::kReads});
    const std::string error = error_of([&] {
      Store store = Store::open(path, Access::kRead);
      const RunDetails details = show_run(store, find_run(store, "@last"));
      EXPECT_EQ(metric_points(store, details.run, "loss").size(), 900u);
      EXPECT_EQ(load_state(store, details.states.at(0).id).at("w").bytes.size(), 6000u);
    });
    fired = vfs.fired();
    EXPECT_EQ(error, !fired ? "no error"
                            : fmt::format("store: the store {} cannot be read or written: disk I/O error, Input/output "
                                          "error; check its disk, or choose another store with --db",
                                          path.string()));
  }
  EXPECT_GT(n, 10);
}

TEST_F(Faults, WarnsOfAFullDiskAndOfRecovery) {
  info = sample_run();
  RunWriter writer(Store::open(path, Access::kWrite), info, {.flush_every = 5ms});
  const SeriesIndex loss = writer.series("loss");
  writer.push(loss, 1, 1);
  writer.flush();
  vfs.arm({.budget = 0});
  writer.push(loss, 2, 0.5);
  std::vector<std::string> warnings;
  while (warnings.empty()) warnings = writer.take_warnings();
  EXPECT_EQ(warnings, std::vector<std::string>{fmt::format(
                          "the store {} cannot grow: its disk is full; free some space, or choose a store "
                          "on another disk with --db; metrics are kept in memory until the store is writable again",
                          path.string())});
  StateSnapshot snapshot = writer.snapshot();
  snapshot.header.step = 2;
  auto save = writer.save_state(std::move(snapshot));
  const std::string error = fmt::format(
      "the store {} cannot grow: its disk is full; free some space, or choose a store on another disk with --db",
      path.string());
  EXPECT_EQ(error_of([&] { save.get(); }), "store: " + error);
  EXPECT_EQ(writer.take_warnings(), std::vector<std::string>{"failed to save the state of step 2: " + error});
  EXPECT_GE(writer.counters().failures, 2);
  const auto save_step = [&](int64_t step) {
    StateSnapshot next = writer.snapshot();
    next.header.step = step;
    return error_of([&] { writer.save_state(std::move(next)).get(); });
  };
  for (const int64_t step : {3, 4}) EXPECT_EQ(save_step(step), "store: " + error);
  EXPECT_EQ(writer.take_warnings(), std::vector<std::string>{});  // already reported
  vfs.disarm();
  while (warnings = writer.take_warnings(), warnings.empty()) {
  }
  EXPECT_EQ(warnings, std::vector<std::string>{fmt::format("the store {} is writable again", path.string())});
  EXPECT_EQ(save_step(5), "no error");
  EXPECT_EQ(writer.take_warnings(),
            std::vector<std::string>{"failed to save 3 states in a row before the state of step 5"});
  writer.finish({RunStatus::kDone, 0, "", "{}"});
  Store store = Store::open(path, Access::kRead);
  EXPECT_EQ(metric_points(store, find_run(store, "@last"), "loss").size(), 2u);
}

TEST_F(Faults, RemovingOnAFullDiskReportsThatItNeedsSpace) {
  info = sample_run();
  ASSERT_TRUE(record(false).finished);
  Store store = Store::open(path, Access::kWrite);
  const RunRow run = find_run(store, "@last");
  vfs.arm({.budget = 0});
  const std::string full = fmt::format(
      "store: the disk of the store {} is full, and removing runs needs free space; free some space, or move the store "
      "to another disk",
      path.string());
  EXPECT_EQ(error_of([&] { remove_run(store, run.id); }), full);
  EXPECT_EQ(error_of([&] { collect_garbage(store); }), full);
  vfs.disarm();
  EXPECT_EQ(find_run(store, "@last").uid, run.uid);
  remove_run(store, run.id);
}

}  // namespace
}  // namespace runner::store
