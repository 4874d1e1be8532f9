#include "store/sqlite.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <utility>

#include <sqlite3.h>
#include <sys/resource.h>
#include <unistd.h>

#include "schema/base/system_limits.h"
#include "store/spool.h"

namespace runner::store {
namespace {

struct Meaning {
  int code;
  const char* what;
  const char* advice;
};

constexpr Meaning kMeanings[] = {
    {SQLITE_FULL, "cannot grow: its disk is full", "free some space, or choose a store on another disk with --db"},
    {SQLITE_BUSY, "is locked by another process", "stop that process or wait for it, then try again"},
    {SQLITE_READONLY, "cannot be written", "make the file and its folder writable, or choose another store with --db"},
    {SQLITE_PERM, "cannot be written", "make the file and its folder writable, or choose another store with --db"},
    {SQLITE_CANTOPEN, "cannot be opened",
     "check that its folder exists and that you have access, or choose another store with --db"},
    {SQLITE_CORRUPT, "is damaged", "restore a backup, or recover readable data with `sqlite3 FILE .recover`"},
    {SQLITE_CONSTRAINT, "has rows that contradict each other",
     "check it with `sqlite3 FILE \"PRAGMA integrity_check\"`, and please report this if it is not damaged"},
    {SQLITE_NOTADB, "is damaged or not a database", "restore a backup, or choose another store with --db"},
    {SQLITE_NOMEM, "cannot be used: out of memory", "raise `ulimit -v`, or free some memory"},
    {SQLITE_IOERR, "cannot be read or written", "check its disk, or choose another store with --db"},
};

// Returns whether a write failed because of the limit on file sizes. SQLite does not always report the errno; then any
// failure to grow a file counts if such a limit is set.
bool is_too_large(int code, int error) {
  rlimit limit{};
  const bool limited = ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  const bool grows = code == SQLITE_IOERR_WRITE || code == SQLITE_IOERR_SHMSIZE || code == SQLITE_IOERR_TRUNCATE;
  return error == EFBIG || (error == 0 && grows && limited);
}

constexpr Meaning kUnexpected = {0, "rejected a request", "please report this"};

const Meaning& meaning_of(int primary) {
  const auto* found =
      std::find_if(std::begin(kMeanings), std::end(kMeanings), [&](const Meaning& m) { return m.code == primary; });
  return found == std::end(kMeanings) ? kUnexpected : *found;
}

std::string message_of(const std::filesystem::path& path, const Meaning& meaning, std::string_view detail) {
  return fmt::format("the store {} {}: {}; {}", path.string(), meaning.what, detail, meaning.advice);
}

// Returns why a file cannot be opened. After it failed to create a file, SQLite tries to read it, and its errno tells
// only that there is none.
int open_errno(const std::filesystem::path& path, int error) {
  return error == ENOENT && ::access(folder_of(path).c_str(), W_OK | X_OK) != 0 ? errno : error;
}

// `handle`: null for an operation on the file itself.
SqliteError make_error(const std::filesystem::path& path, sqlite3* handle, int code) {
  const int primary = code & 0xff;
  const Meaning& meaning = meaning_of(primary);
  std::string detail = handle ? sqlite3_errmsg(handle) : sqlite3_errstr(code);
  if (primary == SQLITE_IOERR || primary == SQLITE_CANTOPEN) {
    const int error = handle ? sqlite3_system_errno(handle) : errno;
    if (is_too_large(code, error))
      return {primary, fmt::format("the store {} cannot grow: {}", path.string(), system_reason(EFBIG))};
    if (error != 0) detail += fmt::format(", {}", std::strerror(open_errno(path, error)));
  }
  if (code == SQLITE_CONSTRAINT_COMMITHOOK)
    return {SQLITE_BUSY, fmt::format("the store {} was not changed: another process has replaced or removed its lock "
                                     "file {}.lock; try again",
                                     path.string(), path.string())};
  // For a full disk, SQLite's own text would repeat the message.
  if (primary == SQLITE_FULL)
    return {primary, fmt::format("the store {} {}; {}", path.string(), meaning.what,
                                 is_spool(path) ? "free some space, or set RUNNER_SPOOL to a folder on another disk"
                                                : meaning.advice)};
  return {primary, message_of(path, meaning, detail)};
}

// The guards of all connections, by the path of the journal. Two connections to a file share its journal.
struct Guards {
  std::mutex mutex;
  std::multimap<std::string, const std::function<bool()>*, std::less<>> by_journal;
};

Guards& guards() {
  static auto* const all = new Guards;  // never destroyed
  return *all;
}

// Whether the file is the journal of a connection that has lost its lock. The journal is then that of another process.
bool is_journal_of_another(const char* file) {
  Guards& all = guards();
  const std::lock_guard lock(all.mutex);
  const auto [begin, end] = all.by_journal.equal_range(std::string_view(file));
  return begin != end && std::none_of(begin, end, [](const auto& guard) { return (*guard.second)(); });
}

sqlite3_vfs* unlocked_vfs() {
  return sqlite3_vfs_find("unix-none");
}

// A process without its lock must not end the transaction of the one that has it.
int delete_own(sqlite3_vfs*, const char* file, int sync_folder) {
  if (is_journal_of_another(file)) return SQLITE_IOERR_DELETE;
  return unlocked_vfs()->xDelete(unlocked_vfs(), file, sync_folder);
}

// A process without its lock must not roll back the transaction of the one that has it.
int access_own(sqlite3_vfs*, const char* file, int flags, int* result) {
  *result = 0;
  if (is_journal_of_another(file)) return SQLITE_OK;
  return unlocked_vfs()->xAccess(unlocked_vfs(), file, flags, result);
}

// SQLite's VFS without locks, except that it leaves the journals of other processes alone.
const char* lock_file_vfs() {
  static auto* const vfs = [] {
    auto* const made = new sqlite3_vfs(*unlocked_vfs());  // never destroyed
    made->pNext = nullptr;
    made->zName = "runner-lock-file";
    made->xDelete = delete_own;
    made->xAccess = access_own;
    sqlite3_vfs_register(made, /*makeDflt=*/0);
    return made;
  }();
  return vfs->zName;
}

// The part of SQLite that accesses files; null: the default.
const char* vfs_of(Locking locking) {
  return locking == Locking::kLockFile ? lock_file_vfs() : nullptr;
}

// Returns a URI, the only kind of file name that can mark the file as immutable, or name a VFS in ATTACH.
std::string uri_of(const std::filesystem::path& path, OpenMode mode, Locking locking) {
  std::string uri = "file:";
  for (const char c : std::filesystem::absolute(path).string()) {
    uri += std::strchr("%?#", c) ? fmt::format("%{:02x}", static_cast<unsigned char>(c)) : std::string(1, c);
  }
  const char* const access = mode == OpenMode::kImmutable  ? "immutable=1"
                             : mode == OpenMode::kReadOnly ? "mode=ro"
                                                           : "mode=rw";
  return fmt::format("{}?{}&vfs={}", uri, access, sqlite3_vfs_find(vfs_of(locking))->zName);
}

int open_flags(OpenMode mode) {
  switch (mode) {
    case OpenMode::kInMemory:
    case OpenMode::kCreate: return SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    case OpenMode::kReadWrite: return SQLITE_OPEN_READWRITE;
    case OpenMode::kReadOnly: return SQLITE_OPEN_READONLY;
    case OpenMode::kImmutable: return SQLITE_OPEN_READONLY;
  }
  return SQLITE_OPEN_READONLY;
}

sqlite3_file* main_file(sqlite3* handle) {
  sqlite3_file* file = nullptr;
  sqlite3_file_control(handle, "main", SQLITE_FCNTL_FILE_POINTER, &file);
  return file;
}

int remember_wal_pages(void* wal_pages, sqlite3*, const char*, int pages) {
  *static_cast<int64_t*>(wal_pages) = pages;
  return SQLITE_OK;
}

// Process-wide setting, like the signal handlers of a command.
LockNotice lock_notice = nullptr;

}  // namespace

std::filesystem::path folder_of(const std::filesystem::path& file) {
  return file.has_parent_path() ? file.parent_path() : ".";
}

SqliteError SqliteError::busy(std::string message) {
  return {SQLITE_BUSY, std::move(message)};
}

bool SqliteError::is_disk_full() const {
  return code_ == SQLITE_FULL;
}

bool SqliteError::is_damage() const {
  return code_ == SQLITE_CORRUPT || code_ == SQLITE_NOTADB;
}

bool SqliteError::is_busy() const {
  return code_ == SQLITE_BUSY;
}

std::string sqlite_version() {
  return sqlite3_libversion();
}

Database::Database(const std::filesystem::path& path, OpenMode mode, Locking locking)
    : path_(path), mode_(mode), locking_(locking) {
  if (path.empty() || path == ":memory:")
    throw SqliteError(SQLITE_CANTOPEN,
                      fmt::format("'{}' is not a file name; choose a store file with --db", path.string()));
  const std::string name = mode == OpenMode::kImmutable  ? uri_of(path, mode, locking)
                           : mode == OpenMode::kInMemory ? ":memory:"
                                                         : std::filesystem::absolute(path).string();
  const int code = sqlite3_open_v2(name.c_str(), &handle_, open_flags(mode) | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI,
                                   vfs_of(locking));
  if (code != SQLITE_OK) {
    const SqliteError error = make_error(path_, handle_, code);
    sqlite3_close(handle_);
    throw error;
  }
  sqlite3_extended_result_codes(handle_, 1);
}

Database::~Database() {
  sqlite3_close(handle_);
  if (!may_commit_) return;
  Guards& all = guards();
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.by_journal, [this](const auto& guard) { return guard.second == &may_commit_; });
}

std::string Database::first_bytes(size_t count) const {
  std::string bytes(count, '\0');
  sqlite3_file* file = main_file(handle_);
  sqlite3_int64 size = 0;
  int code = file->pMethods->xFileSize(file, &size);
  if (code == SQLITE_OK) {
    bytes.resize(std::min(count, static_cast<size_t>(size)));
    if (!bytes.empty()) code = file->pMethods->xRead(file, bytes.data(), static_cast<int>(bytes.size()), 0);
  }
  if (code != SQLITE_OK) throw make_error(path_, nullptr, code);
  return bytes;
}

bool Database::has_moved() const {
  int moved = 0;
  return sqlite3_file_control(handle_, "main", SQLITE_FCNTL_HAS_MOVED, &moved) == SQLITE_OK && moved != 0;
}

void Database::sync() {
  sqlite3_file* file = main_file(handle_);
  if (const int code = file->pMethods->xSync(file, SQLITE_SYNC_NORMAL)) throw make_error(path_, nullptr, code);
}

void Database::flush() {
  // sqlite3_db_cacheflush() leaves no message on the connection.
  if (const int code = sqlite3_db_cacheflush(handle_)) throw make_error(path_, nullptr, code);
}

void Database::configure() {
  set_patience(10'000);
  sqlite3_busy_handler(handle_, wait_for_lock, this);
  // Replaces SQLite's hook, which would checkpoint automatically (docs/decisions/005-wal-checkpoints.md).
  sqlite3_wal_hook(handle_, remember_wal_pages, &wal_pages_);
  // In exclusive mode, SQLite reads a write-ahead log without shared memory. Before any statement that reads the file.
  if (locking_ == Locking::kLockFile && mode_ != OpenMode::kImmutable)
    exec("PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = DELETE; PRAGMA locking_mode = NORMAL");
  // With mmap an I/O error would raise a signal. secure_delete would double the cost of removing checkpoints.
  exec(
      "PRAGMA mmap_size = 0; PRAGMA temp_store = MEMORY; PRAGMA trusted_schema = OFF; PRAGMA foreign_keys = ON;"
      "PRAGMA secure_delete = OFF; PRAGMA synchronous = NORMAL; PRAGMA journal_size_limit = 8388608;");
  // EXTRA also syncs the folder, so that no journal of a committed transaction comes back.
  // Without spilling, nothing is written to the file before the guard of the commit has looked at the lock.
  if (is_always_durable()) exec("PRAGMA synchronous = EXTRA; PRAGMA cache_spill = OFF");
}

void Database::attach(const Database& other, std::string_view name) {
  Statement(*this, fmt::format("ATTACH ?1 AS {}", name)).bind(uri_of(other.path_, other.mode_, other.locking_)).run();
}

void Database::guard_commits(std::function<bool()> may_commit) {
  may_commit_ = std::move(may_commit);
  const auto refuses = [](void* guard) { return (*static_cast<std::function<bool()>*>(guard))() ? 0 : 1; };
  sqlite3_commit_hook(handle_, refuses, &may_commit_);
  const char* const file = sqlite3_db_filename(handle_, "main");
  Guards& all = guards();
  const std::lock_guard lock(all.mutex);
  all.by_journal.emplace(std::string(file) + "-journal", &may_commit_);
}

void Database::exec(const std::string& sql) {
  const int code = sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) fail(code);
}

int64_t Database::query_int64(const std::string& sql) {
  Statement statement(*this, sql);
  return statement.step() ? statement.int64(0) : 0;
}

std::string Database::query_text(const std::string& sql) {
  Statement statement(*this, sql);
  return statement.step() ? statement.text(0) : std::string();
}

int64_t Database::changed_rows() const {
  return sqlite3_total_changes(handle_);
}

int64_t Database::last_insert_id() const {
  return sqlite3_last_insert_rowid(handle_);
}

// Busy handler with the delays of sqlite3_busy_timeout(). Calls the lock notice after one second.
int Database::wait_for_lock(void* database, int tries) {
  constexpr std::array kDelaysMs{1, 2, 5, 10, 15, 20, 25, 25, 25, 50, 50, 100};
  constexpr int kNoticeMs = 1000;
  const auto& self = *static_cast<Database*>(database);
  int waited = 0;
  for (int i = 0; i < tries; ++i) waited += kDelaysMs[std::min<size_t>(static_cast<size_t>(i), kDelaysMs.size() - 1)];
  const int delay = kDelaysMs[std::min<size_t>(static_cast<size_t>(tries), kDelaysMs.size() - 1)];
  if (waited + delay > self.patience_ms_) return 0;
  if (waited < kNoticeMs && waited + delay >= kNoticeMs) notice_lock(self.path_);
  sqlite3_sleep(delay);
  return 1;
}

void set_lock_notice(LockNotice notice) {
  lock_notice = notice;
}

void notice_lock(const std::filesystem::path& store) {
  if (lock_notice != nullptr) lock_notice(store);
}

void Database::fail(int code) const {
  throw make_error(path_, handle_, code);
}

void Database::fail_damaged(std::string_view detail) const {
  throw SqliteError(SQLITE_CORRUPT, message_of(path_, meaning_of(SQLITE_CORRUPT), detail));
}

void Database::check_tables(std::initializer_list<std::string_view> tables) {
  for (const std::string_view table : tables) check(fmt::format("'{}'", table));
}

void Database::check_file() {
  check("1");  // at most one fault
}

// `argument`: of integrity_check.
void Database::check(std::string_view argument) {
  std::string found = query_text(fmt::format("PRAGMA main.integrity_check({})", argument));
  if (found == "ok") return;
  constexpr std::string_view kTitle = "*** in database main ***\n";
  if (found.starts_with(kTitle)) found.erase(0, kTitle.size());
  found.erase(std::min(found.find('\n'), found.size()));
  // A page that cannot be read need not be damaged.
  for (const int code : {SQLITE_NOMEM, SQLITE_IOERR})
    if (found.ends_with(fmt::format("error code={}", code)))
      throw SqliteError(code, message_of(path_, meaning_of(code), found));
  fail_damaged(found);
}

Statement::Statement(Database& database, std::string_view sql) : database_(database) {
  const int code = sqlite3_prepare_v2(database.handle(), sql.data(), static_cast<int>(sql.size()), &handle_, nullptr);
  if (code != SQLITE_OK) database.fail(code);
}

Statement::~Statement() {
  sqlite3_finalize(handle_);
}

bool Statement::step() {
  const int code = sqlite3_step(handle_);
  if (code == SQLITE_ROW) return true;
  if (code != SQLITE_DONE) {
    // reset() releases the locks and clears the error, so the error is read first.
    const SqliteError error = make_error(database_.path(), database_.handle(), code);
    reset();
    throw error;
  }
  return false;
}

void Statement::run() {
  while (step()) {
  }
  reset();
}

void Statement::reset() {
  sqlite3_reset(handle_);
  sqlite3_clear_bindings(handle_);
}

Statement::Type Statement::type(int column) const {
  return static_cast<Type>(sqlite3_column_type(handle_, column));
}

bool Statement::is_null(int column) const {
  return sqlite3_column_type(handle_, column) == SQLITE_NULL;
}

int64_t Statement::int64(int column) const {
  return sqlite3_column_int64(handle_, column);
}

std::optional<int64_t> Statement::optional_int64(int column) const {
  return is_null(column) ? std::nullopt : std::optional(int64(column));
}

double Statement::real(int column) const {
  return is_null(column) ? std::numeric_limits<double>::quiet_NaN() : sqlite3_column_double(handle_, column);
}

std::string Statement::text(int column) const {
  const auto* data = reinterpret_cast<const char*>(sqlite3_column_text(handle_, column));
  return data ? std::string(data, static_cast<size_t>(sqlite3_column_bytes(handle_, column))) : std::string();
}

std::string Statement::known_text(int column) const {
  if (is_null(column)) database_.fail_damaged("a required column is null");
  return text(column);
}

std::string Statement::json(int column) const {
  std::string found = text(column);
  if (found.find('\0') != std::string::npos) database_.fail_damaged("a text column contains zero bytes");
  return found;
}

std::span<const std::byte> Statement::bytes(int column) const {
  const auto* data = static_cast<const std::byte*>(sqlite3_column_blob(handle_, column));
  return {data, data ? static_cast<size_t>(sqlite3_column_bytes(handle_, column)) : 0};
}

void Statement::bind_at(int index, std::nullptr_t) {
  if (const int code = sqlite3_bind_null(handle_, index)) database_.fail(code);
}

void Statement::bind_at(int index, int64_t value) {
  if (const int code = sqlite3_bind_int64(handle_, index, value)) database_.fail(code);
}

void Statement::bind_at(int index, double value) {
  if (const int code = sqlite3_bind_double(handle_, index, value)) database_.fail(code);
}

void Statement::bind_at(int index, std::string_view value) {
  const char* data = value.data() ? value.data() : "";  // a null pointer would bind NULL
  if (const int code = sqlite3_bind_text64(handle_, index, data, value.size(), SQLITE_TRANSIENT, SQLITE_UTF8)) {
    database_.fail(code);
  }
}

void Statement::bind_at(int index, std::span<const std::byte> value) {
  const void* data = value.data() ? static_cast<const void*>(value.data()) : "";
  if (const int code = sqlite3_bind_blob64(handle_, index, data, value.size(), SQLITE_STATIC)) database_.fail(code);
}

Transaction::Transaction(Database& database, Kind kind, bool durable)
    : database_(database), durable_(durable && !database.is_always_durable()) {
  if (durable_) database_.exec("PRAGMA synchronous = FULL");
  try {
    database_.exec(kind == Kind::kRead ? "BEGIN" : kind == Kind::kWrite ? "BEGIN IMMEDIATE" : "BEGIN EXCLUSIVE");
  } catch (...) {
    end();
    throw;
  }
}

Transaction::~Transaction() {
  end();
}

void Transaction::commit() {
  database_.exec("COMMIT");
}

// After a severe error SQLite has already rolled back. After lack of memory, a transaction may be open although BEGIN
// has failed.
void Transaction::end() noexcept {
  if (sqlite3_get_autocommit(database_.handle()) == 0)
    sqlite3_exec(database_.handle(), "ROLLBACK", nullptr, nullptr, nullptr);
  if (durable_) sqlite3_exec(database_.handle(), "PRAGMA synchronous = NORMAL", nullptr, nullptr, nullptr);
}

}  // namespace runner::store
