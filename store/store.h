// The store: one SQLite file with every run, metric, state and event (docs/store.md is its manual).
//
// A Store is one checked connection to that file: it is known to be ours, undamaged as far as opening shows, and has
// this binary's layout, or reads as if it had (store/older_layout.h).  Invariants: (1) a file that is refused is not
// touched; (2) every write is one BEGIN IMMEDIATE transaction; (3) a write-ahead log is folded into the file only while
// no one can commit (docs/decisions/005-store-checkpoints.md). Thread safety: one Store belongs to one thread at a
// time; any number of Stores, in any processes, may share a file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

namespace runner::store {

class Database;

enum class Access {
  kRead,   // never writes, not even to bring an older store up to date; works in a read-only folder
  kWrite,  // makes the file where there is none, and brings an older one up to date
  kEdit,   // as kWrite, but the file must be there: for what only changes runs
};

class Store {
 public:
  // Opens `path`.  Throws Error(kStore): the file is missing (kRead, kEdit), no database, another program's, damaged,
  // newer than this binary, or cannot be written (kWrite, kEdit).
  static Store open(const std::filesystem::path& path, Access access);

  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;
  ~Store();

  const std::filesystem::path& path() const { return path_; }
  Access access() const { return access_; }

  // The connection, for the other files of this folder.
  Database& database() const { return *database_; }

  // Syncs the file if this Store has made it: making it does not wait for the disk.
  void settle();

  // Folds the write-ahead log into the file if it holds at least `min_pages` pages and no one else is writing; else
  // does nothing.  What was committed is safe without it, so that a failure of the disk's is none of it.  Cost: two
  // syncs and the pages.
  void checkpoint(int64_t min_pages);

 private:
  Store(std::filesystem::path path, Access access);

  std::filesystem::path path_;
  Access access_;
  bool is_new_ = false;
  std::unique_ptr<Database> database_;
  std::unique_ptr<Database> guard_;  // holds the write lock during a checkpoint; opened by the first one
  int64_t checkpointed_at_ = 0;      // length of the log, in pages, at the last checkpoint
};

// Whether there is something, not what it is.  An empty file is no store: another process may be making one of it.
bool store_exists(const std::filesystem::path& path);

}  // namespace runner::store
