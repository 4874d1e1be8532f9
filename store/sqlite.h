// RAII wrappers of SQLite: Database, Statement, Transaction. Every failure throws a SqliteError that names the file.
//
// Thread safety: none. A Database and the objects made from it belong to one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "schema/base/error.h"

struct sqlite3;
struct sqlite3_stmt;

namespace runner::store {

// Error(kStore) with SQLite's primary result code.
class SqliteError : public Error {
 public:
  SqliteError(int code, std::string message) : Error(ErrorKind::kStore, std::move(message)), code_(code) {}
  // An error for which is_busy() is true.
  static SqliteError busy(std::string message);
  bool is_disk_full() const;
  bool is_damage() const;  // of the file or its contents
  bool is_busy() const;

 private:
  int code_;
};

// Returns the folder of a file, "." if the path has none.
std::filesystem::path folder_of(const std::filesystem::path& file);

enum class OpenMode {
  kCreate,     // read and write; creates a missing file
  kReadWrite,  // the file must exist
  kReadOnly,   // the file must exist; shares the write-ahead log with writers
  kInMemory,   // no file; `path` only appears in messages
  kImmutable,  // the file must exist; ignores locks and the write-ahead log, for folders that no process can write to
};

// Which locks keep processes from using the file at the same time.
enum class Locking {
  kSqlite,    // those of SQLite: locks of the kernel and shared memory
  kLockFile,  // none of SQLite, and no write-ahead log: the caller holds a StoreLock (store/store_lock.h)
};

// Returns the version of the SQLite library in use, such as "3.40.1".
std::string sqlite_version();

class Database {
 public:
  // Opens the file but neither reads nor locks it. Call configure() before any statement. Throws SqliteError, also for
  // names that SQLite does not treat as files (":memory:" and "").
  Database(const std::filesystem::path& path, OpenMode mode, Locking locking = Locking::kSqlite);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Returns the first `count` bytes on disk, fewer if the file is shorter. Reads through SQLite's descriptor: opening
  // and closing another one would release this process's POSIX locks on the file.
  std::string first_bytes(size_t count) const;
  // Applies the settings that all connections share. With kLockFile, ends the file's WAL mode if it may be written.
  void configure();
  // Makes the file of another connection readable on this one, as the schema `name`, until this one is closed. The
  // other connection must stay open.
  void attach(const Database& other, std::string_view name);
  // Commits only if `may_commit` returns true then; otherwise the transaction fails and is rolled back. While it
  // returns false, this connection leaves the journal alone, because it is that of another process. Call it once.
  void guard_commits(std::function<bool()> may_commit);
  // Whether the file is no longer at its path, so that no other process will find what is written.
  bool has_moved() const;
  // Syncs the database file, not its log.
  void sync();
  // Writes the uncommitted changes of the current transaction to the log, without committing them. Does nothing with
  // kLockFile.
  void flush();

  // Runs one or more statements that return no rows.
  void exec(const std::string& sql);
  // Returns the first column of the first row; 0 or an empty text if there is no row.
  int64_t query_int64(const std::string& sql);
  std::string query_text(const std::string& sql);

  int64_t last_insert_id() const;
  // Number of pages in the write-ahead log after this connection's last commit.
  int64_t wal_pages() const { return wal_pages_; }
  // Number of rows that this connection has inserted, changed or deleted.
  int64_t changed_rows() const;
  // Whether every commit is synced, not only those of durable transactions.
  bool is_always_durable() const { return locking_ == Locking::kLockFile; }
  // Sets how long to wait for another process's lock. The initial value is 10 s.
  void set_patience(int milliseconds) { patience_ms_ = milliseconds; }

  const std::filesystem::path& path() const { return path_; }
  sqlite3* handle() const { return handle_; }

  // Throws the error of an SQLite result code: which file, what happened, and what to do.
  [[noreturn]] void fail(int code) const;
  // Throws that the store is damaged. `detail`: the evidence.
  [[noreturn]] void fail_damaged(std::string_view detail) const;
  // Throws if one of these tables or its indices is damaged. Called when a query finds nothing. Cost: reads the tables.
  void check_tables(std::initializer_list<std::string_view> tables);
  // The same for the whole file. Cost: reads it.
  void check_file();

 private:
  void check(std::string_view argument);
  static int wait_for_lock(void* database, int tries);

  std::filesystem::path path_;
  OpenMode mode_;
  Locking locking_;
  sqlite3* handle_ = nullptr;
  std::function<bool()> may_commit_;
  int64_t wal_pages_ = 0;
  int patience_ms_ = 0;
};

// Called on the waiting thread when another program's lock has blocked a connection for one second. Set it once, before
// opening anything. By default there is no notice.
using LockNotice = void (*)(const std::filesystem::path& store);
void set_lock_notice(LockNotice notice);
// Calls the notice, if there is one, for a lock other than SQLite's.
void notice_lock(const std::filesystem::path& store);

class Statement {
 public:
  Statement(Database& database, std::string_view sql);
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  // Resets the statement and binds its parameters, the first one as ?1. Text is copied; bytes are borrowed until the
  // next bind(). NaN and an empty optional are bound as NULL.
  template <class... Args>
  Statement& bind(const Args&... args) {
    reset();
    int index = 0;
    (bind_at(++index, args), ...);
    return *this;
  }

  // Binds one more parameter, counted from 0, after bind().
  template <class Arg>
  void bind_one(int index, const Arg& value) {
    bind_at(index + 1, value);
  }

  // Advances to the next row. Returns false after the last one.
  bool step();
  // Executes the statement to its end and resets it.
  void run();
  // Releases locks and borrowed bytes.
  void reset();

  // Columns count from 0. NULL reads as 0, NaN or empty.
  bool is_null(int column) const;
  enum class Type { kInteger = 1, kReal, kText, kBytes, kNull };  // values of SQLite's type codes
  Type type(int column) const;
  int64_t int64(int column) const;
  std::optional<int64_t> optional_int64(int column) const;
  double real(int column) const;
  std::string text(int column) const;
  // A text that is never NULL, and a JSON text. Throw SqliteError if the value is NULL or contains a zero byte,
  // respectively; both are signs of lost bytes.
  std::string known_text(int column) const;
  std::string json(int column) const;
  std::span<const std::byte> bytes(int column) const;  // valid until the next step()

 private:
  void bind_at(int index, std::nullptr_t);
  void bind_at(int index, int64_t value);
  void bind_at(int index, int value) { bind_at(index, int64_t{value}); }
  void bind_at(int index, bool value) { bind_at(index, int64_t{value}); }
  void bind_at(int index, double value);
  void bind_at(int index, std::string_view value);
  void bind_at(int index, const std::string& value) { bind_at(index, std::string_view(value)); }
  void bind_at(int index, const char* value) { bind_at(index, std::string_view(value)); }
  void bind_at(int index, std::span<const std::byte> value);
  template <class T>
  void bind_at(int index, const std::optional<T>& value) {
    value ? bind_at(index, *value) : bind_at(index, nullptr);
  }

  Database& database_;
  sqlite3_stmt* handle_ = nullptr;
};

// Rolls back on destruction unless committed.
class Transaction {
 public:
  enum class Kind {
    kRead,       // one snapshot for several queries
    kWrite,      // BEGIN IMMEDIATE: takes the write lock at once, so that it cannot be refused later
    kExclusive,  // as kWrite; also excludes readers from a file that has no write-ahead log yet
  };
  // `durable`: commit() syncs before it returns. Otherwise commits survive a killed process but not a power failure.
  Transaction(Database& database, Kind kind, bool durable = false);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  void commit();

 private:
  void end() noexcept;

  Database& database_;
  bool durable_;
};

}  // namespace runner::store
