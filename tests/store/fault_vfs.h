// A file system that fails on demand: a layer over SQLite's own that every connection of the process uses while it
// lives.
//
// It counts operations that change files (open, write, sync, truncate, delete, shared memory) or that read them, and
// fails the n-th, or the n-th opening; or it gives files a budget of bytes, which is a disk that fills up.  Nothing is synced: the tests
// kill no machine.
// Thread-safe.
#pragma once

#include <cstdint>

namespace runner::store {

class FaultVfs {
 public:
  enum class Count { kChanges, kReads, kOpens };

  struct Plan {
    int64_t fail_at = 0;    // the operation that fails, from 1; 0: none
    int code = 0;           // SQLite's code for it, SQLITE_IOERR or SQLITE_FULL
    bool for_good = false;  // all later ones fail too
    Count count = Count::kChanges;
    int64_t budget = -1;  // bytes by which files may grow; -1: no limit
  };

  FaultVfs();
  ~FaultVfs();
  FaultVfs(const FaultVfs&) = delete;
  FaultVfs& operator=(const FaultVfs&) = delete;

  // Starts counting anew.  A failing write leaves half of its bytes behind.
  void arm(const Plan& plan);
  void disarm() { arm({}); }
  // Whether an operation has failed since arm().
  bool fired() const;
};

}  // namespace runner::store
