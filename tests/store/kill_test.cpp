// Kills a recording process with SIGKILL at random times and restarts it. Everything it had reported must be in the
// store.
//
// The environment variable RUNNER_KILLS sets the number of kills; the target kill_loop uses a thousand.

#include <csignal>
#include <cstdlib>
#include <random>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/queries.h"
#include "store/run_writer.h"
#include "store/sqlite.h"
#include "tests/store/sample_values.h"
#include "tests/store/temp_store.h"

namespace runner::store {
namespace {

using namespace std::chrono_literals;

// Committed data that the child reports to the parent.
struct Report {
  int64_t points = 0;  // number of points of the metric, from step 1 on
  int64_t state = 0;   // id of the checkpoint; 0: none yet
};

class Kills : public StoreTest {
 protected:
  // Runs in the child: resumes from the newest checkpoint, then trains and reports forever.
  [[noreturn]] void train(int out) {
    Store store = open_to_write();
    std::optional<RunHandle> resumed;
    int64_t step = 0;
    if (!list_runs(store).empty()) {
      const auto states = list_states(store, find_run(store, info.uid).id, /*for_resume=*/true);
      AttemptInfo again = info.attempt;
      again.start_step = step = states.empty() ? 0 : states[0].step;
      resumed = begin_attempt(store, info.uid, again);
    }
    const WriterOptions options{.flush_every = 1ms, .state_chunk_bytes = 4096, .checkpoint_pages = 20};
    RunWriter writer =
        resumed ? RunWriter(std::move(store), *resumed, options) : RunWriter(std::move(store), info, options);
    const SeriesIndex loss = writer.series("loss");
    Report report;
    for (;;) {
      for (int64_t end = step + 100; step < end;) {
        ++step;
        while (!writer.push(loss, step, loss_of(step))) ::usleep(100);
      }
      if (step % 200 == 0) {
        StateSnapshot snapshot = writer.snapshot();
        snapshot.header.step = step;
        snapshot.add("w", "", bytes_of(weights_of(step, 20'000)));
        snapshot.add("frozen", "", bytes_of(weights_of(0)));
        report.state = writer.save_state(std::move(snapshot), {.keep_last = 2}).get().id;
      } else {
        writer.flush();
      }
      report.points = step;
      if (::write(out, &report, sizeof report) != sizeof report) ::_exit(1);
    }
  }

  // Starts a child and kills it `delay` after its report number `reports`. Returns its last report.
  Report train_and_kill(int64_t reports, std::chrono::microseconds delay) {
    int pipe[2];
    EXPECT_EQ(::pipe(pipe), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(pipe[0]);
      train(pipe[1]);
    }
    ::close(pipe[1]);
    Report last, next;
    const auto read_report = [&] {
      if (::read(pipe[0], &next, sizeof next) != sizeof next) return false;
      last = next;
      return true;
    };
    for (int64_t i = 0; i < reports; ++i) EXPECT_TRUE(read_report()) << "the child ended before it was killed";
    ::usleep(static_cast<useconds_t>(delay.count()));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    while (read_report()) {  // reports sent before the kill also count
    }
    ::close(pipe[0]);
    return last;
  }

  void verify(const Report& promised) {
    Store store = open_to_write();
    ASSERT_EQ(store.database().query_text("PRAGMA integrity_check"), "ok");
    ASSERT_EQ(store.database().query_text("PRAGMA foreign_key_check"), "");
    if (list_runs(store).empty()) {
      ASSERT_EQ(promised.points, 0);
      return;
    }
    const RunRow run = find_run(store, info.uid);
    EXPECT_EQ(run.status, RunStatus::kCrashed);
    if (promised.points > 0) {
      const auto points = metric_points(store, run, "loss");
      ASSERT_GE(static_cast<int64_t>(points.size()), promised.points);
      MetricSummary summary;
      for (size_t i = 0; i < points.size(); ++i) {
        ASSERT_EQ(points[i].step, static_cast<int64_t>(i + 1));  // consecutive steps
        ASSERT_EQ(points[i].value, loss_of(points[i].step));
        summary.add(points[i]);
      }
      EXPECT_EQ(list_metrics(store, run.id).at(0).sum, summary.sum);
    }
    const auto states = list_states(store, run.id, /*for_resume=*/true);
    if (promised.state > 0) {
      ASSERT_FALSE(states.empty());
      EXPECT_GE(states[0].id, promised.state);
    }
    for (const StateInfo& state : states) {
      const LoadedState loaded = load_state(store, state.id);
      EXPECT_TRUE(std::ranges::equal(loaded.at("w").bytes, bytes_of(weights_of(state.step, 20'000))));
      EXPECT_TRUE(std::ranges::equal(loaded.at("frozen").bytes, bytes_of(weights_of(0))));
    }
  }

  const RunInfo info = sample_run();
};

TEST_F(Kills, LoseNothingThatWasCommitted) {
  const char* setting = std::getenv("RUNNER_KILLS");
  const int kills = setting ? std::atoi(setting) : 20;
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937_64 random(seed);
  for (int i = 0; i < kills && !HasFailure(); ++i) {
    // Every fourth store is new, and some children are killed before their first report. This also covers the creation
    // of stores.
    if (i % 4 == 0) {
      for (const char* suffix : {"", "-wal", "-shm", "-journal"}) fs::remove(path.string() + suffix);
    }
    const auto reports = static_cast<int64_t>(random() % 4);
    verify(train_and_kill(reports, std::chrono::microseconds(random() % 15'000)));
  }
}

}  // namespace
}  // namespace runner::store
