// The store: one SQLite file with all runs, metrics, checkpoints and events (manual: docs/store.md).
//
// A Store is one checked connection to that file. The file has been identified as a store, and opening found no damage.
// It has the schema of this binary, or reads as if it had (store/layout.h). Invariants:
//
// - A rejected file is not modified.
// - Every write is one BEGIN IMMEDIATE transaction.
// - The write-ahead log is checkpointed only while no process can commit (docs/decisions/005-wal-checkpoints.md).
// - A store on a network file system (store/network.h) has no write-ahead log. A Store holds its lock file from opening
//   to destruction, so it is open briefly, and only once at a time (docs/decisions/103-network-stores.md).
//
// Thread safety: a Store belongs to one thread at a time. Any number of Stores in any processes may share a file.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>

#include "store/store_lock.h"

namespace runner::store {

class Database;

enum class Access {
  kRead,   // never writes, not even to migrate an older store; works in a read-only folder
  kWrite,  // creates a missing file and migrates an older one
  kEdit,   // as kWrite, but the file must exist; for commands that only modify runs
};

class Store {
 public:
  // Opens `path`. Throws Error(kStore) if the file is missing (kRead, kEdit), is not a store, is damaged or lacks
  // tables, is newer than this binary, or cannot be written (kWrite, kEdit).
  static Store open(const std::filesystem::path& path, Access access);

  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;
  ~Store();

  const std::filesystem::path& path() const { return path_; }

  // The connection, for the other files in this folder.
  Database& database() const { return *database_; }
  // Whether the points are encoded (encoded_points.h), as found on opening.
  bool has_encoded_points() const { return has_encoded_points_; }

  // Syncs the file if this Store has created it. Creation itself does not wait for the disk.
  void sync_new_file();

  // Lets SQLite check the whole file. Throws Error(kStore) if it is damaged. Cost: reads the file.
  void check_file() const;

  // Checkpoints the write-ahead log if it has grown by at least `min_pages` pages and no other process is writing. Does
  // nothing otherwise, or if the disk fails: committed data is safe in the log. Cost: two syncs and copying the pages.
  void checkpoint(int64_t min_pages);

 private:
  explicit Store(std::filesystem::path path);

  // Takes the lock file. Returns whether the store is on a network file system.
  bool lock(Access access);

  std::filesystem::path path_;
  std::unique_ptr<StoreLock> lock_;  // released after the connection is closed
  bool is_new_ = false;
  bool has_encoded_points_ = false;
  std::unique_ptr<Database> database_;
  std::unique_ptr<Database> guard_;  // holds the write lock during a checkpoint; opened by the first checkpoint
  int64_t checkpointed_at_ = 0;      // length of the log, in pages, at the last checkpoint
};

// Returns whether a nonempty file exists, whatever it contains. An empty file may be a store that another process is
// about to create.
bool store_exists(const std::filesystem::path& path);

// Blocks until no other process is writing to the store; usually returns at once. Throws Error(kStore) if another
// program holds its lock for `limit`. Throws Error(kInterrupted) within about a second of `stop` becoming nonzero.
void wait_for_write_lock(Store& store, const std::atomic<int>& stop, std::chrono::milliseconds limit = kLockLimit);

}  // namespace runner::store
