// A file system with fault injection: a layer over SQLite's default VFS that all connections of the process use during
// its lifetime.
//
// It counts operations that modify files (open, write, sync, truncate, delete, shared memory), that read them, or that
// open them, and fails the n-th one. Alternatively it limits the bytes by which files may grow, like a disk that fills
// up. Nothing is synced, because the tests do not simulate power failures. Thread-safe.
#pragma once

#include <cstdint>

namespace runner::store {

class FaultVfs {
 public:
  enum class Count { kChanges, kReads, kOpens };

  struct Plan {
    int64_t fail_at = 0;    // number of the operation that fails, from 1; 0: none
    int code = 0;           // SQLITE_IOERR or SQLITE_FULL
    bool for_good = false;  // all later operations fail too
    Count count = Count::kChanges;
    int64_t budget = -1;  // bytes by which files may grow; −1: no limit
  };

  FaultVfs();
  ~FaultVfs();
  FaultVfs(const FaultVfs&) = delete;
  FaultVfs& operator=(const FaultVfs&) = delete;

  // Starts counting from zero. A failing write writes half of its bytes.
  void arm(const Plan& plan);
  void disarm() { arm({}); }
  // Whether an operation has failed since arm().
  bool fired() const;
};

}  // namespace runner::store
