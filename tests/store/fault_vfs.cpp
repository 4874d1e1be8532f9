#include "tests/store/fault_vfs.h"

#include <algorithm>
#include <cerrno>
#include <mutex>

#include <sqlite3.h>

namespace runner::store {
namespace {

// Shared by all files of the FaultVfs, of which at most one exists.
struct State {
  std::mutex mutex;
  FaultVfs::Plan plan;
  int64_t operations = 0;
  bool fired = false;
} state;

sqlite3_vfs* real_vfs = nullptr;
sqlite3_vfs fault_vfs;

struct File : sqlite3_file {
  sqlite3_file* real() {
    return reinterpret_cast<sqlite3_file*>(this + 1);
  }  // SQLite allocates szOsFile bytes for
     // both
};

sqlite3_file* real_of(sqlite3_file* file) {
  return static_cast<File*>(file)->real();
}

// Counts an operation. Returns the code with which it has to fail, or SQLITE_OK.
int next(FaultVfs::Count count, int io_code) {
  const std::lock_guard lock(state.mutex);
  if (state.plan.fail_at == 0 || state.plan.count != count) return SQLITE_OK;
  ++state.operations;
  const bool fails =
      state.plan.for_good ? state.operations >= state.plan.fail_at : state.operations == state.plan.fail_at;
  if (!fails) return SQLITE_OK;
  state.fired = true;
  errno = EIO;  // becomes part of the error message
  return state.plan.code == SQLITE_FULL ? SQLITE_FULL : io_code;
}

int change(int io_code) {
  return next(FaultVfs::Count::kChanges, io_code);
}

// Takes up to `wanted` bytes from the growth budget. Returns how many were granted.
int64_t take_budget(int64_t wanted) {
  const std::lock_guard lock(state.mutex);
  if (state.plan.budget < 0) return wanted;
  const int64_t granted = std::min(wanted, state.plan.budget);
  state.plan.budget -= granted;
  if (granted < wanted) state.fired = true;
  return granted;
}

int64_t size_of(sqlite3_file* file) {
  sqlite3_int64 size = 0;
  real_of(file)->pMethods->xFileSize(real_of(file), &size);
  return size;
}

int close_file(sqlite3_file* file) {
  return real_of(file)->pMethods->xClose(real_of(file));
}

int read_file(sqlite3_file* file, void* data, int count, sqlite3_int64 at) {
  if (const int code = next(FaultVfs::Count::kReads, SQLITE_IOERR_READ)) return code;
  return real_of(file)->pMethods->xRead(real_of(file), data, count, at);
}

int write_file(sqlite3_file* file, const void* data, int count, sqlite3_int64 at) {
  const auto* methods = real_of(file)->pMethods;
  if (const int code = change(SQLITE_IOERR_WRITE)) {
    methods->xWrite(real_of(file), data, count / 2, at);
    return code;
  }
  const int64_t growth = std::max<int64_t>(0, at + count - size_of(file));
  const int64_t missing = growth - take_budget(growth);
  if (missing == 0) return methods->xWrite(real_of(file), data, count, at);
  if (missing < count) methods->xWrite(real_of(file), data, static_cast<int>(count - missing), at);
  return SQLITE_FULL;
}

int truncate_file(sqlite3_file* file, sqlite3_int64 size) {
  if (const int code = change(SQLITE_IOERR_TRUNCATE)) return code;
  const int64_t freed = size_of(file) - size;
  {
    const std::lock_guard lock(state.mutex);
    if (state.plan.budget >= 0 && freed > 0) state.plan.budget += freed;
  }
  return real_of(file)->pMethods->xTruncate(real_of(file), size);
}

int sync_file(sqlite3_file*, int) {
  return change(SQLITE_IOERR_FSYNC);
}

int file_size(sqlite3_file* file, sqlite3_int64* size) {
  return real_of(file)->pMethods->xFileSize(real_of(file), size);
}
int lock_file(sqlite3_file* file, int kind) {
  return real_of(file)->pMethods->xLock(real_of(file), kind);
}
int unlock_file(sqlite3_file* file, int kind) {
  return real_of(file)->pMethods->xUnlock(real_of(file), kind);
}
int check_lock(sqlite3_file* file, int* result) {
  return real_of(file)->pMethods->xCheckReservedLock(real_of(file), result);
}
int control(sqlite3_file* file, int op, void* argument) {
  return real_of(file)->pMethods->xFileControl(real_of(file), op, argument);
}
int sector_size(sqlite3_file* file) {
  return real_of(file)->pMethods->xSectorSize(real_of(file));
}
int characteristics(sqlite3_file* file) {
  return real_of(file)->pMethods->xDeviceCharacteristics(real_of(file));
}

int shm_map(sqlite3_file* file, int region, int size, int extend, void volatile** memory) {
  if (const int code = change(SQLITE_IOERR_SHMMAP)) return code;
  return real_of(file)->pMethods->xShmMap(real_of(file), region, size, extend, memory);
}
int shm_lock(sqlite3_file* file, int offset, int count, int flags) {
  return real_of(file)->pMethods->xShmLock(real_of(file), offset, count, flags);
}
void shm_barrier(sqlite3_file* file) {
  real_of(file)->pMethods->xShmBarrier(real_of(file));
}
int shm_unmap(sqlite3_file* file, int remove) {
  return real_of(file)->pMethods->xShmUnmap(real_of(file), remove);
}

constexpr sqlite3_io_methods kMethods{
    2,         close_file,  read_file,  write_file, truncate_file, sync_file,       file_size,
    lock_file, unlock_file, check_lock, control,    sector_size,   characteristics, shm_map,
    shm_lock,  shm_barrier, shm_unmap,  nullptr,    nullptr,
};

int open_file(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* out_flags) {
  file->pMethods = nullptr;
  for (const auto count : {FaultVfs::Count::kChanges, FaultVfs::Count::kOpens}) {
    if (const int code = next(count, SQLITE_CANTOPEN)) return code;
  }
  const int code = real_vfs->xOpen(real_vfs, name, real_of(file), flags, out_flags);
  if (code == SQLITE_OK) file->pMethods = &kMethods;
  return code;
}

int delete_file(sqlite3_vfs*, const char* name, int sync_folder) {
  if (const int code = change(SQLITE_IOERR_DELETE)) return code;
  return real_vfs->xDelete(real_vfs, name, sync_folder & 0);
}

}  // namespace

FaultVfs::FaultVfs() {
  real_vfs = sqlite3_vfs_find(nullptr);
  fault_vfs = *real_vfs;
  fault_vfs.zName = "fault";
  fault_vfs.pNext = nullptr;
  fault_vfs.szOsFile = static_cast<int>(sizeof(File)) + real_vfs->szOsFile;
  fault_vfs.xOpen = open_file;
  fault_vfs.xDelete = delete_file;
  sqlite3_vfs_register(&fault_vfs, 1);
  disarm();
}

FaultVfs::~FaultVfs() {
  sqlite3_vfs_unregister(&fault_vfs);
  sqlite3_vfs_register(real_vfs, 1);
}

void FaultVfs::arm(const Plan& plan) {
  const std::lock_guard lock(state.mutex);
  state.plan = plan;
  state.operations = 0;
  state.fired = false;
}

bool FaultVfs::fired() const {
  const std::lock_guard lock(state.mutex);
  return state.fired;
}

}  // namespace runner::store
