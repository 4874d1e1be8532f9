// SQLite as RAII: Database, Statement, Transaction.  Every failure is a SqliteError that names the file.
//
// Thread safety: none; a Database and what was made from it belong to one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "schema/error.h"

struct sqlite3;
struct sqlite3_stmt;

namespace runner::store {

// Error(kStore) that keeps SQLite's primary result code.
class SqliteError : public Error {
 public:
  SqliteError(int code, std::string message) : Error(ErrorKind::kStore, std::move(message)), code_(code) {}
  int code() const { return code_; }
  bool is_disk_full() const;
  bool is_busy() const;

 private:
  int code_;
};

enum class OpenMode {
  kCreate,     // read and write; made where there is none
  kReadWrite,  // must exist
  kReadOnly,   // must exist; shares the write-ahead log with writers
  kInMemory,   // no file: `path` is only what messages call it
  kImmutable,  // must exist; takes no locks and ignores a write-ahead log: for folders where nobody can write
};

// The version of the SQLite library that this process uses, such as "3.40.1".
std::string sqlite_version();

class Database {
 public:
  // Opens the file but neither reads nor locks it: configure() must follow before any statement.  SQLite's names that
  // are no files (":memory:", "") are refused.  Throws SqliteError.
  Database(const std::filesystem::path& path, OpenMode mode);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // The first `count` bytes as they are on disk, fewer if the file is shorter.  Through SQLite's file: closing a second
  // descriptor of a file would give up the locks that this process holds on it (POSIX record locks).
  std::string first_bytes(size_t count) const;
  // The settings that all our connections share.
  void configure();
  // Syncs the file, not its log.
  void sync();
  // Writes what the transaction under way has changed so far to the log, where it is not committed yet.
  void flush();

  // Runs one or more statements that return nothing.
  void exec(const std::string& sql);
  // First column of the first row of a query that has one.
  int64_t query_int64(const std::string& sql);
  std::string query_text(const std::string& sql);

  int64_t last_insert_id() const;
  // Pages in the write-ahead log after this connection's last commit.
  int64_t wal_pages() const { return wal_pages_; }
  // How long to wait for another process's lock; 10 s from the start.
  void set_patience(int milliseconds) { patience_ms_ = milliseconds; }

  const std::filesystem::path& path() const { return path_; }
  sqlite3* handle() const { return handle_; }

  // Throws what SQLite's result code means here: which file, what happened, what to do.
  [[noreturn]] void fail(int code) const;
  // Throws that the store is damaged, which shows in `detail`.
  [[noreturn]] void fail_damaged(std::string_view detail) const;
  // For who finds nothing: throws where one of these tables, or an index of it, is damaged.  Reads all of them.
  void check_tables(std::initializer_list<std::string_view> tables);

 private:
  static int wait_for_lock(void* database, int tries);

  std::filesystem::path path_;
  sqlite3* handle_ = nullptr;
  int64_t wal_pages_ = 0;
  int patience_ms_ = 0;
};

// Called, on the thread that waits, where a lock of another program has kept a connection waiting for a second.  Set it
// once, before anything is opened; a program that sets nothing waits in silence.
using LockNotice = void (*)(const std::filesystem::path& store);
void set_lock_notice(LockNotice notice);

class Statement {
 public:
  Statement(Database& database, std::string_view sql);
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  // Starts over with these parameters, the first being ?1.  Text is copied; bytes are borrowed until the next bind().
  // A NaN becomes NULL, and so does an empty optional.
  template <class... Args>
  Statement& bind(const Args&... args) {
    reset();
    int index = 0;
    (bind_at(++index, args), ...);
    return *this;
  }

  // Moves to the next row; false after the last.
  bool step();
  // Runs to the end.
  void run();
  // Gives up locks and borrowed bytes.
  void reset();

  // Columns count from 0.  A NULL reads as 0, NaN or empty.
  bool is_null(int column) const;
  enum class Type { kInteger = 1, kReal, kText, kBytes, kNull };  // as SQLite counts
  Type type(int column) const;
  int64_t int64(int column) const;
  std::optional<int64_t> optional_int64(int column) const;
  double real(int column) const;
  std::string text(int column) const;
  // What no row is without, and a text of JSON: throw where it is NULL or holds a zero byte, as where bytes are lost.
  std::string known_text(int column) const;
  std::string json(int column) const;
  std::span<const std::byte> bytes(int column) const;  // valid until the next step

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

// Rolled back unless committed.
class Transaction {
 public:
  enum class Kind {
    kRead,       // one snapshot for several queries
    kWrite,      // BEGIN IMMEDIATE: takes the write lock now, so that it cannot be refused half-way
    kExclusive,  // as kWrite, and keeps readers out of a file that has no write-ahead log yet
  };
  // `durable`: synced when commit() returns; otherwise safe against a killed process, not against a power cut.
  Transaction(Database& database, Kind kind, bool durable = false);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  void commit();

 private:
  void end() noexcept;

  Database& database_;
  bool durable_;
  bool open_ = true;
};

}  // namespace runner::store
