// The lock file of a store on a network file system: STORE.lock, which one process at a time has.
//
// link(2) creates it, which is atomic on every file system, unlike locks of the kernel. It names its process, which
// touches it every few seconds. A lock is stale, and is removed by the next process, if its process no longer exists on
// this host, or if a process on another host has not touched it for a minute by the clock of the file system
// (store::is_running). Thread safety: a StoreLock belongs to one thread at a time; any number of threads may have one
// for different stores.
#pragma once

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace runner::store {

// How long to wait for another program that holds the lock of a store.
inline constexpr std::chrono::milliseconds kLockLimit{10'000};
// Longest time between two looks at a lock of another process. Who releases a lock and needs it again sleeps longer.
inline constexpr std::chrono::milliseconds kLockInterval{200};

class StoreLock {
 public:
  struct Attempt {
    std::unique_ptr<StoreLock> lock;  // null if no file can be made there
    int error = 0;                    // errno: a folder without write permission, a full disk, an I/O error, …
  };
  // Blocks until no other process has the lock. Throws Error(kStore), which names the other process, after `limit`.
  // Removes files that killed processes have left.
  static Attempt acquire(const std::filesystem::path& store, std::chrono::milliseconds limit = kLockLimit);
  // Blocks until no process has the lock, without taking it. Throws likewise.
  static void wait_until_free(const std::filesystem::path& store, std::chrono::milliseconds limit = kLockLimit);

  ~StoreLock();
  StoreLock(const StoreLock&) = delete;
  StoreLock& operator=(const StoreLock&) = delete;

  // Whether the lock file is still that of this object.
  bool is_held() const;

 private:
  StoreLock(std::filesystem::path file, std::string owner);

  void keep_fresh();

  const std::filesystem::path file_;
  const std::string owner_;  // contents of the file
  std::mutex mutex_;
  std::condition_variable released_;
  bool is_released_ = false;
  std::thread refresher_;
};

}  // namespace runner::store
