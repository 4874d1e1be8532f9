#include "store/network.h"

#include <csignal>

#include "store/removal.h"
#include "store/store_lock.h"
#include "tests/store/network_store.h"

namespace runner::store {
namespace {

using NetworkFileSystem = NetworkTest;

TEST_F(NetworkFileSystem, IsThatOfTheListedFolders) {
  fs::create_directory(network / "a");
  fs::create_symlink(network / "a", local / "link");
  for (const fs::path& file : {path, network / "a/missing/r.db", local / "link/r.db"})
    EXPECT_EQ(network_file_system(file), "RUNNER_NETWORK_STORE") << file;
  EXPECT_EQ(network_file_system(local / "r.db"), "");
  {
    const support::CurrentFolder current(network.path());
    EXPECT_EQ(network_file_system("r.db"), "RUNNER_NETWORK_STORE");
    EXPECT_EQ(network_file_system("missing/r.db"), "RUNNER_NETWORK_STORE");
  }
  const TempFolder other;
  ::setenv("RUNNER_NETWORK_STORE", (":" + other.path().string() + "::" + network.path().string()).c_str(), 1);
  EXPECT_EQ(network_file_system(path), "RUNNER_NETWORK_STORE");
  EXPECT_EQ(network_file_system(other / "r.db"), "RUNNER_NETWORK_STORE");
  ::setenv("RUNNER_NETWORK_STORE", "0", 1);
  EXPECT_EQ(network_file_system(path), "");
}

class NetworkStore : public NetworkTest {
 protected:
  static RunHandle create(const fs::path& file) {
    Store store = Store::open(file, Access::kWrite);
    return create_run(store, sample_run());
  }
  static size_t runs_in(const fs::path& file) {
    Store store = Store::open(file, Access::kRead);
    return list_runs(store).size();
  }
};

TEST_F(NetworkStore, HasALockFileInsteadOfALogAndSyncsEachCommit) {
  {
    Store store = Store::open(path, Access::kWrite);
    EXPECT_EQ(network.listing(), "runner.db runner.db.lock");
    EXPECT_EQ(store.database().query_text("PRAGMA journal_mode"), "delete");
    EXPECT_EQ(store.database().query_int64("PRAGMA synchronous"), 3);  // EXTRA
    const RunHandle run = create_run(store, sample_run());
    finish_run(store, run, {.status = RunStatus::kDone, .exit_code = 0, .reason = "", .summary_json = ""});
    EXPECT_EQ(store.database().query_int64("PRAGMA synchronous"), 3) << "also after a durable transaction";
  }
  EXPECT_EQ(network.listing(), "runner.db");
  EXPECT_EQ(runs_in(path), 1u);
}

TEST_F(NetworkStore, LeavesTheWalModeOfAStoreThatWasMadeOnALocalDisk) {
  create(local / "made.db");
  fs::copy(local / "made.db", path);
  ASSERT_EQ(read_text(path)[18], 2) << "WAL";
  EXPECT_EQ(runs_in(path), 1u);
  EXPECT_EQ(read_text(path)[18], 1) << "rollback journal";
  EXPECT_EQ(network.listing(), "runner.db");
}

TEST_F(NetworkStore, IncludesTheLogOfAStoreThatWasNotClosed) {
  const fs::path made = local / "made.db";
  Store open = Store::open(made, Access::kWrite);
  create_run(open, sample_run());
  fs::copy(made, path);
  fs::copy(made.string() + "-wal", path.string() + "-wal");
  EXPECT_EQ(runs_in(path), 1u);
  EXPECT_EQ(network.listing(), "runner.db");
}

TEST_F(NetworkStore, RollsBackWhatAKilledProcessHasNotCommitted) {
  create(path);
  const pid_t child = ::fork();
  if (child == 0) {
    Store store = Store::open(path, Access::kWrite);
    store.database().exec("PRAGMA cache_spill = ON");  // as in the middle of a commit
    const Transaction transaction(store.database(), Transaction::Kind::kWrite);
    store.database().exec("UPDATE run SET name = 'lost'; DELETE FROM param");
    store.database().flush();
    std::raise(SIGKILL);
  }
  ::waitpid(child, nullptr, 0);
  ASSERT_EQ(network.listing(), "runner.db runner.db-journal runner.db.lock");
  ASSERT_NE(read_text(path).find("lost"), std::string::npos) << "the file has what was not committed";
  Store store = Store::open(path, Access::kRead);
  EXPECT_EQ(find_run(store, "@last").name, "digits");
  EXPECT_EQ(store.database().query_int64("SELECT count(*) FROM param"), 2);
  EXPECT_EQ(network.listing(), "runner.db runner.db.lock");
}

TEST_F(NetworkStore, CommitsNothingOnceItsLockIsLost) {
  create(path);
  {
    Store store = Store::open(path, Access::kEdit);
    add_tag(store, 1, "before");
    write_file(path.string() + ".lock", "of another process");
    EXPECT_EQ(error_of([&] { add_tag(store, 1, "after"); }),
              fmt::format("store: the store {0} was not changed: another process has replaced or removed its lock file "
                          "{0}.lock; try again",
                          path.string()));
  }
  EXPECT_EQ(read_text(path.string() + ".lock"), "of another process");
  fs::remove(path.string() + ".lock");
  Store store = Store::open(path, Access::kRead);
  EXPECT_EQ(find_run(store, "@last").tags, std::vector<std::string>{"before"});
}

// Loses the lock after it has changed more pages than SQLite caches, while another process commits.
TEST_F(NetworkStore, WritesNothingBeforeTheCommitAndLeavesTheJournalOfTheNextOwner) {
  create(path);
  const std::string before = read_text(path), journal = path.string() + "-journal", lock = path.string() + ".lock";
  {
    Store store = Store::open(path, Access::kEdit);
    std::string of_another;
    {
      Transaction transaction(store.database(), Transaction::Kind::kWrite);
      store.database().exec(
          "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9000) INSERT INTO content(digest, "
          "data) SELECT CAST(printf('%032d', i) AS BLOB), randomblob(2000) FROM n");
      EXPECT_EQ(read_text(path), before) << "more than the cache was changed, and nothing is written";
      fs::remove(lock);
      EXPECT_TRUE(in_child([&] {
        Store other = Store::open(path, Access::kEdit);  // rolls back
        add_tag(other, 1, "of another");
        return fs::exists(lock);
      }));
      of_another = read_text(path);
      write_file(lock, "of another process");
      write_file(journal, "of another process");
      EXPECT_NE(error_of([&] { transaction.commit(); }), "no error");
    }
    EXPECT_EQ(error_of([&] { store.database().query_int64("SELECT count(*) FROM run"); }), "no error");
    EXPECT_EQ(read_text(path), of_another);
    EXPECT_EQ(read_text(journal), "of another process");
  }
  EXPECT_EQ(read_text(journal), "of another process");
  fs::remove(journal);
  fs::remove(lock);
  Store store = Store::open(path, Access::kRead);
  store.check_file();
  EXPECT_EQ(find_run(store, "@last").tags, std::vector<std::string>{"of another"});
}

TEST_F(NetworkStore, CanBeReadInAFolderWithoutWritePermission) {
  create(path);
  fs::permissions(network.path(), fs::perms(0555));
  fs::permissions(path, fs::perms(0444));
  EXPECT_TRUE(as_unprivileged_user([&] { return runs_in(path) == 1; }));
  const auto written = [&] { return error_of([&] { Store::open(path, Access::kEdit); }); };
  EXPECT_TRUE(as_unprivileged_user([&] {
    return written() == fmt::format(
                            "store: the store {0} cannot be written: its lock file {0}.lock cannot be created: "
                            "Permission denied; check that its folder exists, is writable and has free space, "
                            "or choose another store with --db",
                            path.string());
  }));
  write_file(path.string() + "-journal", "unfinished");
  EXPECT_TRUE(as_unprivileged_user([&] {
    return error_of([&] { runs_in(path); })
        .starts_with("store: the store " + path.string() + " was not closed by its last writer");
  }));
}

TEST_F(NetworkStore, IsNotCreatedByReading) {
  EXPECT_EQ(error_of([&] { Store::open(path, Access::kRead); }),
            fmt::format("store: the store {} does not exist; `runner exec` creates it, or choose another store with "
                        "--db or RUNNER_DB",
                        path.string()));
  EXPECT_EQ(network.listing(), "");
}

TEST_F(NetworkStore, ReturnsFreeSpace) {
  create(path);
  Store store = Store::open(path, Access::kEdit);
  store.database().exec("INSERT INTO content(digest, data) VALUES(zeroblob(32), zeroblob(1000000))");
  EXPECT_GT(collect_garbage(store), 900'000);
}

}  // namespace
}  // namespace runner::store
