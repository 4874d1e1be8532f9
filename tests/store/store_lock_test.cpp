#include "store/store_lock.h"

#include <csignal>

#include <fcntl.h>
#include <sys/stat.h>

#include "store/process.h"
#include "tests/store/temp_store.h"
#include "tests/support/full_disk.h"

namespace runner::store {
namespace {

using namespace std::chrono_literals;

class StoreLocks : public ::testing::Test {
 protected:
  std::unique_ptr<StoreLock> acquire() const { return StoreLock::acquire(path, 30ms).lock; }
  std::string locked_by(const std::string& owner) const {
    return fmt::format(
        "store: the store {0} is locked by {1}; wait for that process or stop it, then try again; if it no longer "
        "exists, remove {0}.lock",
        path.string(), owner);
  }
  // As a process on another host would write it.
  void write_lock_of_another_host(int seconds_ago) const {
    write_file(lock, R"({"host":"node7","pid":4,"start_ticks":1,"boot_id":"b","pid_namespace":"n","number":1})");
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    const timespec touched{now.tv_sec - seconds_ago, 0};
    const timespec times[] = {touched, touched};
    ASSERT_EQ(::utimensat(AT_FDCWD, lock.c_str(), times, 0), 0);
  }

  TempFolder folder;
  fs::path path = fs::canonical(folder.path()) / "runner.db", lock = path.string() + ".lock";
};

TEST_F(StoreLocks, ExcludeEachOther) {
  auto held = acquire();
  ASSERT_NE(held, nullptr);
  EXPECT_TRUE(held->is_held());
  const std::string owner = fmt::format("process {} on {}", ::getpid(), this_process().host);
  EXPECT_EQ(error_of([&] { acquire(); }), locked_by(owner));
  EXPECT_EQ(error_of([&] { StoreLock::wait_until_free(path, 30ms); }), locked_by(owner));
  EXPECT_EQ(folder.listing(), "runner.db.lock");
  held.reset();
  EXPECT_EQ(folder.listing(), "");
  StoreLock::wait_until_free(path, 0ms);
  EXPECT_NE(acquire(), nullptr);
}

TEST_F(StoreLocks, OfADeadProcessIsStaleAtOnce) {
  EXPECT_TRUE(in_child([&] { return acquire().release() != nullptr; }));
  ASSERT_EQ(folder.listing(), "runner.db.lock");
  EXPECT_NE(acquire(), nullptr);
  EXPECT_EQ(folder.listing(), "");
}

TEST_F(StoreLocks, OfAnotherHostIsStaleAfterAMinute) {
  write_lock_of_another_host(30);
  EXPECT_EQ(error_of([&] { acquire(); }), locked_by("process 4 on node7"));
  write_lock_of_another_host(90);
  EXPECT_NE(acquire(), nullptr);
}

TEST_F(StoreLocks, WithoutReadableContentsIsStaleAfterAMinute) {
  write_file(lock, "");
  EXPECT_EQ(error_of([&] { acquire(); }), locked_by("another process"));
  const timespec times[] = {{1, 0}, {1, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, lock.c_str(), times, 0), 0);
  EXPECT_NE(acquire(), nullptr);
}

TEST_F(StoreLocks, DoNotRemoveTheLockOfAnother) {
  auto held = acquire();
  fs::remove(lock);
  EXPECT_FALSE(held->is_held());
  write_lock_of_another_host(0);
  EXPECT_FALSE(held->is_held());
  held.reset();
  EXPECT_EQ(folder.listing(), "runner.db.lock");
}

TEST_F(StoreLocks, ReportAFolderInWhichNoFileCanBeMade) {
  EXPECT_EQ(StoreLock::acquire(folder / "missing/runner.db").error, ENOENT);
  fs::permissions(folder.path(), fs::perms(0555));
  EXPECT_TRUE(as_unprivileged_user([&] { return StoreLock::acquire(path).error == EACCES; }));
}

// A process that is killed between two calls leaves such files.
TEST_F(StoreLocks, RemoveOldFilesThatKilledProcessesHaveLeft) {
  const timespec times[] = {{1, 0}, {1, 0}};
  for (const char* name : {".candidate.node7.4.12345678", ".stale.node7.4.12345678"}) {
    write_file(lock.string() + name, "left");
    write_file(lock.string() + name + "0", "of a running process");
    ASSERT_EQ(::utimensat(AT_FDCWD, (lock.string() + name).c_str(), times, 0), 0);
  }
  write_file(lock.string() + ".backup", "of the user");
  acquire();
  EXPECT_EQ(folder.listing(),
            "runner.db.lock.backup runner.db.lock.candidate.node7.4.123456780 "
            "runner.db.lock.stale.node7.4.123456780");
}

// In containers, another process may have the same host name, pid and start.
TEST_F(StoreLocks, DoNotDependOnTheNamesOfOtherProcesses) {
  for (int number = 1; number < 100; ++number)
    write_file(fmt::format("{}.{}.{}.{}", lock.string(), this_process().host, ::getpid(), number), "left");
  EXPECT_NE(acquire(), nullptr);
}

TEST_F(StoreLocks, ReportAFullDisk) {
  const support::FullDisk full(20);
  EXPECT_EQ(StoreLock::acquire(path, 30ms).error, EFBIG);
  EXPECT_EQ(folder.listing(), "");
}

// Each process adds to a number in a file, which loses additions without a lock. Some are killed while they hold it.
TEST_F(StoreLocks, ExcludeManyProcesses) {
  constexpr int kProcesses = 6, kRounds = 20;
  write_file(path, "0");
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    for (int round = 0; round < kRounds; ++round) {
      auto held = StoreLock::acquire(path, 60s).lock;
      if (held == nullptr || !held->is_held()) ::_exit(1);
      write_file(path, std::to_string(std::stoi(read_text(path)) + 1));
      if (i % 2 == 1 && round == kRounds - 1) std::raise(SIGKILL);
    }
    ::_exit(0);
  }
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
  }
  EXPECT_EQ(read_text(path), std::to_string(kProcesses * kRounds));
}

}  // namespace
}  // namespace runner::store
