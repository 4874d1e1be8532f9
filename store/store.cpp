#include "store/store.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

#include <unistd.h>

#include "store/migrations.h"
#include "store/sql_functions.h"
#include "store/sqlite.h"

namespace runner::store {
namespace {

namespace fs = std::filesystem;

// The parts of a database file's first 100 bytes that say whose it is (sqlite.org/fileformat2.html, section 1.3).
constexpr std::string_view kMagic{"SQLite format 3\0", 16};
constexpr size_t kHeaderBytes = 100, kUserVersionAt = 60, kApplicationIdAt = 68;

uint32_t big_endian(const char* bytes) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

[[noreturn]] void fail_newer(const fs::path& path, int64_t version) {
  fail(ErrorKind::kStore,
       "the store {} has schema version {}, this runner knows versions up to {}; use a newer runner, or name another "
       "store "
       "with --db",
       path.string(), version, migrations().size());
}

[[noreturn]] void fail_foreign(const fs::path& path, uint32_t id) {
  fail(ErrorKind::kStore,
       "{} is a database of another program (application id {:#x}, a store has {:#x}); name another file with --db",
       path.string(), id, kApplicationId);
}

// Reads the header without SQLite, so that a file that is not ours is not even locked.
void check_header(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    fail(ErrorKind::kStore, "{} is a folder, not a store; name a file with --db", path.string());
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    fail(ErrorKind::kStore, "the store {} cannot be opened: {}; make it readable, or name another store with --db",
         path.string(), std::strerror(errno));
  }
  std::array<char, kHeaderBytes> header{};
  file.read(header.data(), header.size());
  if (file.gcount() == 0) return;  // what SQLite calls an empty database
  if (file.gcount() < std::streamsize{kHeaderBytes} || std::string_view(header.data(), kMagic.size()) != kMagic) {
    fail(ErrorKind::kStore, "{} is no SQLite database, so it cannot be a store; name another file with --db",
         path.string());
  }
  const uint32_t id = big_endian(&header[kApplicationIdAt]);
  if (id != kApplicationId) fail_foreign(path, id);
  const uint32_t version = big_endian(&header[kUserVersionAt]);
  if (version > migrations().size()) fail_newer(path, version);
}

// The header may be older than the write-ahead log; this looks through SQLite.
int64_t checked_version(Database& database) {
  const int64_t version = database.query_int64("PRAGMA user_version");
  if (version > static_cast<int64_t>(migrations().size())) fail_newer(database.path(), version);
  return version;
}

// Brings the file up to date.  Of several processes one does the work and the others find it done.
void migrate(Database& database) {
  const auto latest = static_cast<int64_t>(migrations().size());
  if (checked_version(database) == latest) return;
  Transaction transaction(database, Transaction::Kind::kExclusive);
  const int64_t version = checked_version(database);
  for (int64_t next = version; next < latest; ++next) database.exec(migrations()[static_cast<size_t>(next)]);
  if (version == 0) database.exec(fmt::format("PRAGMA application_id = {}", kApplicationId));
  if (version < latest) database.exec(fmt::format("PRAGMA user_version = {}", latest));
  transaction.commit();
}

// A new store keeps no log until it is whole, so that its header tells whose it is from the first byte on.
void use_write_ahead_log(Database& database) {
  const std::string mode = database.query_text("PRAGMA journal_mode = WAL");
  if (mode == "wal") return;
  fail(ErrorKind::kStore,
       "the store {} is on a file system without shared memory, which safe concurrent writing needs; name a store on a "
       "local disk with --db",
       database.path().string());
}

bool is_writable(const fs::path& path) {
  return ::access(path.c_str(), W_OK) == 0;
}

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

// A log that holds commits must be read with the file; SQLite needs a writable folder, or its shared memory, for that.
bool has_log(const fs::path& path) {
  std::error_code error;
  const auto size = fs::file_size(path.string() + "-wal", error);
  return !error && size > 0;
}

std::unique_ptr<Database> open_for_reading(const fs::path& path) {
  if (!store_exists(path)) {
    fail(ErrorKind::kStore, "there is no store {}; `runner exec` makes one, and --db or RUNNER_DB name another",
         path.string());
  }
  check_header(path);
  // Where it may, a reader opens for writing and then forbids itself to write: the last to leave tidies the log away.
  const bool tidy = is_writable(path) && is_writable(folder_of(path));
  const OpenMode mode = tidy ? OpenMode::kReadWrite : has_log(path) ? OpenMode::kReadOnly : OpenMode::kImmutable;
  auto database = std::make_unique<Database>(path, mode);
  const int64_t version = checked_version(*database);
  if (version != static_cast<int64_t>(migrations().size())) {
    fail(ErrorKind::kStore,
         "the store {} has schema version {}, reading needs version {}; `runner gc` brings it up to date",
         path.string(), version, migrations().size());
  }
  if (tidy) database->exec("PRAGMA query_only = ON");
  return database;
}

std::unique_ptr<Database> open_for_writing(const fs::path& path) {
  if (store_exists(path)) check_header(path);
  auto database = std::make_unique<Database>(path, OpenMode::kCreate);
  if (!is_writable(path) || !is_writable(folder_of(path))) {
    fail(ErrorKind::kStore,
         "the store {} cannot be written; make the file and its folder writable, or name another store with --db",
         path.string());
  }
  migrate(*database);
  use_write_ahead_log(*database);
  return database;
}

}  // namespace

bool store_exists(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

Store::Store(fs::path path, Access access, std::unique_ptr<Database> database)
    : path_(std::move(path)), access_(access), database_(std::move(database)) {}

Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&&) noexcept = default;
Store::~Store() = default;

Store Store::open(const fs::path& path, Access access) {
  auto database = access == Access::kRead ? open_for_reading(path) : open_for_writing(path);
  register_sql_functions(*database);
  return Store(path, access, std::move(database));
}

void Store::checkpoint(int64_t min_pages) {
  const int64_t pages = database_->wal_pages();
  if (pages < checkpointed_at_) checkpointed_at_ = 0;  // the log was started anew
  if (pages - checkpointed_at_ < min_pages) return;
  checkpointed_at_ = pages;
  if (!guard_) {
    guard_ = std::make_unique<Database>(path_, OpenMode::kReadWrite);
    guard_->set_patience(0);
  }
  try {
    // Nothing is written by it; it keeps everyone else from committing while the log is copied.
    const Transaction exclusion(*guard_, Transaction::Kind::kWrite);
    database_->query_int64("PRAGMA wal_checkpoint(PASSIVE)");
  } catch (const SqliteError&) {
    // Someone is writing, or the disk fails: the log is whole, the next checkpoint tries again.
  }
}

}  // namespace runner::store
