#include "store/store.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>

#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "store/encoded_points.h"
#include "store/layout.h"
#include "store/migrations.h"
#include "store/network.h"
#include "store/sql_functions.h"
#include "store/sqlite.h"

namespace runner::store {
namespace {

namespace fs = std::filesystem;

// Fields in the first 100 bytes of a database file that identify its owner (sqlite.org/fileformat2.html, section 1.3).
constexpr std::string_view kMagic{"SQLite format 3\0", 16};
constexpr size_t kHeaderBytes = 100, kWriteVersionAt = 18, kReadVersionAt = 19, kSchemaFormatAt = 44,
                 kUserVersionAt = 60, kApplicationIdAt = 68;
constexpr uint32_t kMaxFileVersion = 2, kMaxSchemaFormat = 4;

uint32_t big_endian(const char* bytes) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

void check_supported(const fs::path& path, int64_t version) {
  RUN_CHECK(version <= std::ssize(migrations()), ErrorKind::kStore,
            "the store {} has schema version {}, but this runner supports versions up to {}; use a newer runner, or "
            "choose another store with --db",
            path.string(), version, migrations().size());
}

[[noreturn]] void fail_foreign(const fs::path& path, uint32_t id) {
  fail(ErrorKind::kStore,
       "{} is a database of another program (application id {:#x}, expected {:#x}); choose another file", path.string(),
       id, kApplicationId);
}

[[noreturn]] void fail_unwritable(const fs::path& path) {
  fail(ErrorKind::kStore,
       "the store {} cannot be written; make the file and its folder writable, or choose another store with --db",
       path.string());
}

[[noreturn]] void fail_bad_header(const fs::path& path, std::string_view what) {
  fail(ErrorKind::kStore, "the store {} is damaged: {}; restore a backup, or choose another store with --db",
       path.string(), what);
}

// Checks the fields with which SQLite would call the file read-only or reject it without naming damage.
void check_formats(const fs::path& path, const std::string& header) {
  for (const size_t at : {kWriteVersionAt, kReadVersionAt}) {
    const auto version = static_cast<unsigned char>(header[at]);
    if (version > kMaxFileVersion)
      fail_bad_header(path,
                      fmt::format("its header has file format {}, expected at most {}", version, kMaxFileVersion));
  }
  const uint32_t format = big_endian(&header[kSchemaFormatAt]);
  if (format > kMaxSchemaFormat)
    fail_bad_header(path,
                    fmt::format("its header has schema format {}, expected at most {}", format, kMaxSchemaFormat));
}

// Checks the header before any statement, so that a foreign file is not even locked.
void check_header(const Database& database) {
  const std::string header = database.first_bytes(kHeaderBytes);
  if (header.empty()) return;  // SQLite treats an empty file as an empty database
  if (header.find_first_not_of('\0') == std::string::npos) fail_bad_header(database.path(), "its header is lost");
  if (header.size() < kHeaderBytes || !header.starts_with(kMagic)) {
    fail(ErrorKind::kStore, "{} is not an SQLite database; choose another file", database.path().string());
  }
  const uint32_t id = big_endian(&header[kApplicationIdAt]);
  if (id != kApplicationId) fail_foreign(database.path(), id);
  const auto version = static_cast<int32_t>(big_endian(&header[kUserVersionAt]));
  if (version < 0) fail_bad_header(database.path(), fmt::format("its header has schema version {}", version));
  check_supported(database.path(), version);
  check_formats(database.path(), header);
}

// Returns the schema version as SQLite reads it. The header in the file may be older than the write-ahead log.
int64_t checked_version(Database& database) {
  const int64_t version = database.query_int64("PRAGMA user_version");
  if (version < 0) database.fail_damaged(fmt::format("its schema version is {}", version));
  check_supported(database.path(), version);
  return version;
}

// Applies the missing migrations, and creates views and indexes that are missing. If several processes do this at once,
// one does it and the others find it done. Returns whether this process created the store.
bool migrate(Database& database) {
  const auto latest = static_cast<int64_t>(migrations().size());
  const int64_t before = checked_version(database);
  check_has_tables(database, before);
  if (before == latest && !lacks_views_or_indexes(database, before)) return false;
  // A new store has no data to lose. Store::sync_new_file() syncs it before data is written.
  if (before == 0) database.exec("PRAGMA synchronous = OFF");
  Transaction transaction(database, Transaction::Kind::kExclusive);
  const int64_t version = checked_version(database);
  if (version < latest) check_not_newer(database, version);
  create_missing_views_and_indexes(database, version);
  apply_migrations(database, version, latest);
  if (version == 0) database.exec(fmt::format("PRAGMA application_id = {}", kApplicationId));
  if (version < latest) database.exec(fmt::format("PRAGMA user_version = {}", latest));
  transaction.commit();
  return version == 0;
}

// Switches to WAL mode. If two connections that read both try to switch, SQLite fails with SQLITE_BUSY without waiting.
std::string switch_to_log(Database& database) {
  constexpr auto kPatience = std::chrono::seconds(10);
  const auto start = std::chrono::steady_clock::now();
  while (true) {
    try {
      return database.query_text("PRAGMA journal_mode = WAL");
    } catch (const SqliteError& error) {
      if (!error.is_busy() || std::chrono::steady_clock::now() - start > kPatience) throw;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// Called once the schema is complete, so that the header identifies the owner from the first byte on.
void use_write_ahead_log(Database& database) {
  const std::string mode = switch_to_log(database);
  database.exec("PRAGMA synchronous = NORMAL");
  if (mode == "wal") return;
  fail(ErrorKind::kStore,
       "the store {} is on a file system without shared memory, which concurrent writing needs; if it is on a network, "
       "add its folder to RUNNER_NETWORK_STORE; otherwise choose a store on a local disk with --db",
       database.path().string());
}

// `lock`: null for a store without a lock file.
Locking locking_of(const StoreLock* lock) {
  return lock != nullptr ? Locking::kLockFile : Locking::kSqlite;
}

void guard_by(const StoreLock* lock, Database& database) {
  if (lock != nullptr) database.guard_commits([lock] { return lock->is_held(); });
}

bool is_writable(const fs::path& path) {
  return ::access(path.c_str(), W_OK) == 0;
}

// Returns whether there is a write-ahead log with commits, which must be read with the file. SQLite then needs a
// writable folder or the log's shared-memory file.
bool has_log(const fs::path& path, const char* suffix = "-wal") {
  std::error_code error;
  const auto size = fs::file_size(path.string() + suffix, error);
  return !error && size > 0;
}

void check_exists(const fs::path& path) {
  if (store_exists(path)) return;
  std::error_code error;
  RUN_CHECK(fs::status(path, error).type() != fs::file_type::none, ErrorKind::kStore,
            "the store {} cannot be opened: {}; check that you have access, or choose another store with --db",
            path.string(), error.message());
  RUN_CHECK(!fs::is_regular_file(path, error), ErrorKind::kStore,
            "the store {} is empty; `runner exec` fills it, or choose another store with --db or RUNNER_DB",
            path.string());
  fail(ErrorKind::kStore,
       "the store {} does not exist; `runner exec` creates it, or choose another store with --db or RUNNER_DB",
       path.string());
}

// A reader opens the file for writing if it may, and then sets query_only: the last connection to close removes the
// log.
OpenMode mode_for_reading(const fs::path& path) {
  if (is_writable(path) && is_writable(folder_of(path))) return OpenMode::kReadWrite;
  return has_log(path) ? OpenMode::kReadOnly : OpenMode::kImmutable;
}

// A store with version 0 contains nothing.
void check_created(const Database& database, int64_t version) {
  RUN_CHECK(version > 0, ErrorKind::kStore,
            "the store {} is empty: its creation was not finished; `runner gc` finishes it, or choose another store "
            "with --db",
            database.path().string());
}

// The same on a network file system. Without the lock, nothing may be written, and nothing that is half written read.
OpenMode mode_for_reading(const fs::path& path, bool is_locked) {
  if (is_locked && is_writable(path)) return OpenMode::kReadWrite;
  RUN_CHECK(!has_log(path) && !has_log(path, "-journal"), ErrorKind::kStore,
            "the store {} was not closed by its last writer, which only a process that can write it can repair; run "
            "`runner ls` with write permission for the file and its folder, and with free space on the disk",
            path.string());
  return OpenMode::kImmutable;
}

std::unique_ptr<Database> open_for_reading(const fs::path& path, Locking locking, const StoreLock* lock) {
  const OpenMode mode =
      locking == Locking::kLockFile ? mode_for_reading(path, lock != nullptr) : mode_for_reading(path);
  auto database = std::make_unique<Database>(path, mode, locking);
  guard_by(lock, *database);
  check_header(*database);
  database->configure();
  const int64_t version = checked_version(*database);
  check_has_tables(*database, version);
  check_created(*database, version);
  const bool is_newest = version == std::ssize(migrations());
  if (!is_newest) check_not_newer(*database, version);
  if (!is_newest || lacks_views_or_indexes(*database, version)) read_as_newest(*database, version);
  database->exec("PRAGMA query_only = ON");
  return database;
}

std::unique_ptr<Database> open_for_writing(const fs::path& path, Access access, const StoreLock* lock) {
  const OpenMode mode = access == Access::kEdit ? OpenMode::kReadWrite : OpenMode::kCreate;
  auto database = std::make_unique<Database>(path, mode, locking_of(lock));
  guard_by(lock, *database);
  check_header(*database);
  if (!is_writable(path) || !is_writable(folder_of(path))) fail_unwritable(path);
  database->configure();
  return database;
}

// Removes the file of a store that could not be created. A process that waits for the lock to create the store finds
// that the file has moved.
void remove_uncreated(const fs::path& path, Locking locking) {
  try {
    Database database(path, OpenMode::kReadWrite, locking);
    database.configure();
    database.set_patience(0);
    const Transaction lock(database, Transaction::Kind::kExclusive);
    std::error_code ignored;
    if (database.first_bytes(1).empty() && !database.has_moved()) fs::remove(fs::canonical(path, ignored), ignored);
  } catch (const Error&) {  // another process creates the store
  }
}

// Opens a store for writing. Returns the database, and whether this process created the store.
std::pair<std::unique_ptr<Database>, bool> open_newest(const fs::path& path, Access access, const StoreLock* lock) {
  constexpr int kTries = 10;
  std::error_code ignored;
  const bool existed = fs::exists(path, ignored);
  try {
    for (int i = 1;; ++i) {
      auto database = open_for_writing(path, access, lock);
      try {
        const bool is_new = migrate(*database);
        if (!database->has_moved() || i == kTries) return {std::move(database), is_new};
      } catch (const Error&) {
        if (!database->has_moved() || i == kTries) throw;
      }
    }
  } catch (const Error&) {
    if (!existed) remove_uncreated(path, locking_of(lock));
    throw;
  }
}

std::unique_ptr<Database> open_guard(const fs::path& path) {
  auto guard = std::make_unique<Database>(path, OpenMode::kReadWrite);
  guard->configure();
  guard->set_patience(0);
  return guard;
}

}  // namespace

bool store_exists(const fs::path& path) {
  std::error_code error;
  const bool is_empty = fs::is_regular_file(path, error) && fs::file_size(path, error) == 0;
  return !is_empty && fs::exists(path, error);
}

namespace {

// Reading such a file may wait for ever, and it looks like a regular one.
bool is_made_by_kernel(const fs::path& path) {
  struct statfs system {};
  return ::statfs(path.c_str(), &system) == 0 && (system.f_type == PROC_SUPER_MAGIC || system.f_type == SYSFS_MAGIC);
}

}  // namespace

Store::Store(fs::path path) : path_(std::move(path)) {}

Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&&) noexcept = default;
Store::~Store() = default;

Store Store::open(const fs::path& path, Access access) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  RUN_CHECK(!fs::is_directory(status), ErrorKind::kStore, "{} is a folder, not a store; choose a file with --db",
            path.string());
  RUN_CHECK(!fs::exists(status) || (fs::is_regular_file(status) && !is_made_by_kernel(path)), ErrorKind::kStore,
            "{} is a device or a pipe, not a store; choose a file with --db", path.string());
  if (access != Access::kWrite) check_exists(path);
  Store store(path);
  const Locking locking = store.lock(access) ? Locking::kLockFile : Locking::kSqlite;
  if (access == Access::kRead) {
    store.database_ = open_for_reading(path, locking, store.lock_.get());
  } else {
    std::tie(store.database_, store.is_new_) = open_newest(path, access, store.lock_.get());
    // The schema was created without waiting for the disk.
    locking == Locking::kLockFile ? store.database_->exec("PRAGMA synchronous = EXTRA")
                                  : use_write_ahead_log(*store.database_);
  }
  store.has_encoded_points_ = store::has_encoded_points(checked_version(*store.database_));
  if (access == Access::kEdit) store.sync_new_file();  // it may have completed an unfinished store
  register_sql_functions(*store.database_);
  return store;
}

bool Store::lock(Access access) {
  if (network_file_system(path_).empty()) return false;
  auto [lock, error] = StoreLock::acquire(path_);
  if (lock == nullptr && access == Access::kRead) StoreLock::wait_until_free(path_);
  RUN_CHECK(
      lock != nullptr || access == Access::kRead, ErrorKind::kStore,
      "the store {} cannot be written: its lock file {}.lock cannot be created: {}; check that its folder exists, "
      "is writable and has free space, or choose another store with --db",
      path_.string(), path_.string(), std::strerror(error));
  lock_ = std::move(lock);
  return true;
}

void Store::sync_new_file() {
  if (!is_new_) return;
  database_->sync();
  is_new_ = false;
}

void Store::check_file() const {
  database_->check_file();
}

void Store::checkpoint(int64_t min_pages) {
  const int64_t pages = database_->wal_pages();
  if (pages < checkpointed_at_) checkpointed_at_ = 0;  // the log was restarted
  if (pages - checkpointed_at_ < min_pages) return;
  checkpointed_at_ = pages;
  try {
    if (!guard_) guard_ = open_guard(path_);
    // Writes nothing; prevents other connections from committing while the log is copied.
    const Transaction exclusion(*guard_, Transaction::Kind::kWrite);
    database_->query_int64("PRAGMA wal_checkpoint(PASSIVE)");
  } catch (const SqliteError&) {
    // Another process writes, the disk fails, or the file cannot be opened again (no descriptors left, or it was
    // renamed). The log remains intact, and the next checkpoint tries again.
  }
}

}  // namespace runner::store
