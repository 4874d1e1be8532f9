#include "store/spool.h"

#include <csignal>

#include <sys/stat.h>

#include "store/spool_ingester.h"
#include "store/store_lock.h"
#include "tests/store/network_store.h"
#include "tests/store/sample_values.h"

namespace runner::store {
namespace {

using namespace std::chrono_literals;

using Spools = NetworkTest;

TEST_F(Spools, AreFoundByTheirStoreAndBelongToOneProcess) {
  EXPECT_TRUE(spools_of(path).empty());
  Spool spool = Spool::create(path);
  { Store::open(spool.file(), Access::kWrite); }
  EXPECT_EQ(spools_of(path), std::vector{spool.file()});
  EXPECT_TRUE(spools_of(network / "other.db").empty());
  EXPECT_FALSE(Spool::claim(spool.file()).has_value());
  EXPECT_TRUE(in_child([&] { return !Spool::claim(spool.file()).has_value(); }));
  EXPECT_TRUE(Spool::is_in_use(spool.file()));
  EXPECT_TRUE(in_child([&] { return Spool::is_in_use(spool.file()); }));
  spool.remove();
  EXPECT_FALSE(Spool::is_in_use(spool.file()));
  EXPECT_TRUE(spools_of(path).empty());
  EXPECT_TRUE(fs::is_empty(spool.file().parent_path()));
}

TEST_F(Spools, OfAKilledProcessCanBeClaimed) {
  const pid_t child = ::fork();
  if (child == 0) {
    const Spool spool = Spool::create(path);
    { Store::open(spool.file(), Access::kWrite); }
    std::raise(SIGKILL);
  }
  ::waitpid(child, nullptr, 0);
  ASSERT_EQ(spools_of(path).size(), 1u);
  EXPECT_FALSE(Spool::is_in_use(spools_of(path)[0]));
  EXPECT_TRUE(Spool::claim(spools_of(path)[0]).has_value());
}

TEST_F(Spools, AreInAPrivateFolder) {
  const Spool spool = Spool::create(path);
  struct stat status {};
  ASSERT_EQ(::stat(spool_root().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
  fs::permissions(spool_root(), fs::perms(0777));
  EXPECT_EQ(
      error_of([&] { Spool::create(path); }),
      fmt::format("store: the folder for spools {} is not a folder that only you can write; set RUNNER_SPOOL to a "
                  "folder on a local disk",
                  spool_root().string()));
}

TEST_F(Spools, MustBeOnALocalDisk) {
  ::setenv("RUNNER_SPOOL", (network / "spools").c_str(), 1);
  EXPECT_EQ(error_of([&] { Spool::create(path); }),
            fmt::format("store: the folder for spools {} is on a network file system (RUNNER_NETWORK_STORE); set "
                        "RUNNER_SPOOL to a folder on a local disk",
                        (network / "spools").string()));
}

TEST_F(Spools, SayHowToMoveThemFromAFullDisk) {
  const Spool spool = Spool::create(path);
  Store store = Store::open(spool.file(), Access::kWrite);
  store.database().exec("PRAGMA max_page_count = 1");
  EXPECT_EQ(error_of([&] { store.database().exec("CREATE TABLE large AS SELECT zeroblob(1000000)"); }),
            fmt::format("store: the store {} cannot grow: its disk is full; free some space, or set RUNNER_SPOOL to a "
                        "folder on another disk",
                        spool.file().string()));
}

TEST_F(Spools, AreInTheFolderForTemporaryFilesByDefault) {
  ::unsetenv("RUNNER_SPOOL");
  ::setenv("TMPDIR", local.path().c_str(), 1);
  EXPECT_EQ(spool_root(), local / fmt::format("runner-spool-{}", ::geteuid()));
  ::unsetenv("TMPDIR");
  EXPECT_EQ(spool_root(), fmt::format("/var/tmp/runner-spool-{}", ::geteuid()));
}

class SpoolIngesters : public NetworkTest {
 protected:
  RunHandle begin() {
    Store store = Store::open(spool, Access::kWrite);
    return create_run(store, sample_run());
  }
  void save(const RunHandle& run, int64_t step) {
    Store store = Store::open(spool, Access::kWrite);
    const std::string weights = weights_of(step);
    const std::vector<SectionView> sections{{"w", "{}", support::bytes_of(weights)}};
    save_state(store, run, {.step = step, .epoch = 0, .reason = "schedule", .metrics = {}}, sections);
  }
  size_t states_in_store() {
    if (!store_exists(path)) return 0;
    Store store = Store::open(path, Access::kRead);
    return list_runs(store).empty() ? 0 : list_states(store, find_run(store, "@last").id).size();
  }
  // Whether the condition becomes true within a minute.
  static bool becomes_true(const std::function<bool()>& condition) {
    const auto end = std::chrono::steady_clock::now() + 60s;
    while (!condition() && std::chrono::steady_clock::now() < end) ::usleep(1000);
    return condition();
  }

  fs::path spool = local / "spool.db";
  IngesterOptions fast{.look_every = 5ms, .every = 1h, .patience = 100ms};
};

TEST_F(SpoolIngesters, IngestWhenTheRunBeginsAndWhenAStateIsSaved) {
  { Store::open(spool, Access::kWrite); }
  SpoolIngester ingester(spool, path, fast);
  const RunHandle run = begin();
  EXPECT_TRUE(becomes_true([&] { return store_exists(path); }));
  save(run, 1);
  EXPECT_TRUE(becomes_true([&] { return states_in_store() == 1; }));
  save(run, 2);
  EXPECT_TRUE(becomes_true([&] { return states_in_store() == 2; }));
}

TEST_F(SpoolIngesters, IngestTheHeartbeatNowAndThen) {
  const RunHandle run = begin();
  fast.every = 5ms;
  SpoolIngester ingester(spool, path, fast);
  {
    Store store = Store::open(spool, Access::kWrite);
    Statement(store.database(), "UPDATE attempt SET heartbeat_ms = heartbeat_ms + 1, dropped_points = 77").run();
  }
  EXPECT_TRUE(becomes_true([&] {
    if (!store_exists(path)) return false;
    Store store = Store::open(path, Access::kRead);
    return !list_runs(store).empty() && find_run(store, run.uid).dropped_points == 77;
  }));
}

TEST_F(SpoolIngesters, FinishWithEverything) {
  const RunHandle run = begin();
  fast.look_every = 1h;  // only finish() ingests
  SpoolIngester ingester(spool, path, fast);
  save(run, 1);
  const std::vector<IngestedRun> runs = ingester.finish();
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].uid, run.uid);
  EXPECT_EQ(states_in_store(), 1u);
  EXPECT_FALSE(ingester.is_stuck());
}

// The lock simulates a disk that does not answer.
TEST_F(SpoolIngesters, GiveUpAStoreThatDoesNotAnswer) {
  save(begin(), 1);
  auto lock = StoreLock::acquire(path).lock;
  SpoolIngester ingester(spool, path, fast);
  EXPECT_EQ(error_of([&] { ingester.finish(); }),
            fmt::format("store: the disk of the store {} does not answer", path.string()));
  EXPECT_TRUE(ingester.is_stuck()) << "its thread still waits";
  lock.reset();
  EXPECT_TRUE(becomes_true([&] { return !ingester.is_stuck(); }));
  EXPECT_EQ(states_in_store(), 1u) << "the answer came late";
}

// As when training throws.
TEST_F(SpoolIngesters, AbandonAThreadThatWaitsForADiskAlsoWithoutFinish) {
  save(begin(), 1);
  auto lock = StoreLock::acquire(path).lock;
  std::shared_ptr<void> used;
  fast.abandon = [&](std::shared_ptr<void> abandoned) { used = std::move(abandoned); };
  {
    SpoolIngester ingester(spool, path, fast);
    ::usleep(50'000);  // it waits for the lock now
  }
  EXPECT_NE(used, nullptr);
  lock.reset();
  EXPECT_TRUE(becomes_true([&] { return states_in_store() == 1; }));
}

TEST_F(SpoolIngesters, ReportEachFailureOnceDuringTheRun) {
  save(begin(), 1);
  fs::create_directory(path);  // opening it as a store fails
  fast.every = 5ms;
  SpoolIngester ingester(spool, path, fast);
  std::vector<std::string> failures;
  EXPECT_TRUE(becomes_true([&] {
    for (std::string& failure : ingester.take_failures()) failures.push_back(std::move(failure));
    return !failures.empty();
  }));
  EXPECT_EQ(failures, std::vector{fmt::format("{} is a folder, not a store; choose a file with --db", path.string())});
  ::usleep(50'000);  // it tries again
  EXPECT_TRUE(ingester.take_failures().empty());
}

// Its mount point is then an empty folder of the local disk.
TEST_F(SpoolIngesters, DoNotMakeAStoreWhereTheNetworkFileSystemIsNotMounted) {
  save(begin(), 1);
  fast.look_every = 1h;
  SpoolIngester ingester(spool, path, fast);
  ::setenv("RUNNER_NETWORK_STORE", "0", 1);
  EXPECT_EQ(error_of([&] { ingester.finish(); }), "store: its network file system is not mounted any more");
  EXPECT_EQ(network.listing(), "");
}

TEST_F(SpoolIngesters, ReportAnUnusableStoreAndLeaveTheSpool) {
  const RunHandle run = begin();
  save(run, 1);
  fs::create_directory(path);  // opening it as a store fails
  {
    SpoolIngester ingester(spool, path, fast);
    EXPECT_EQ(error_of([&] { ingester.finish(); }),
              fmt::format("store: {} is a folder, not a store; choose a file with --db", path.string()));
  }
  SpoolIngester ingester(spool, path, fast);
  fs::remove(path);
  EXPECT_EQ(ingester.finish().size(), 1u);
  EXPECT_EQ(states_in_store(), 1u);
}

}  // namespace
}  // namespace runner::store
