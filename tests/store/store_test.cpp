#include <csignal>
#include <functional>
#include <map>
#include <optional>

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/layout.h"
#include "store/migrations.h"
#include "store/sqlite.h"
#include "tests/store/temp_store.h"

namespace runner::store {
namespace {

using StoreOpen = StoreTest;

TEST_F(StoreOpen, CreatesAndReopensAStore) {
  { open_to_write(); }
  EXPECT_EQ(folder.listing(), "runner.db");
  const std::string header = read_text(path).substr(0, 100);
  EXPECT_EQ(header.substr(0, 16), std::string("SQLite format 3\0", 16));
  EXPECT_EQ(header.substr(68, 4), "rnnr");
  EXPECT_EQ(header.substr(60, 4), std::string("\0\0\0", 3) + static_cast<char>(migrations().size()));
  const RunHandle run = [&] {
    Store store = open_to_write();
    return create_run(store, sample_run());
  }();
  Store store = open_to_read();
  EXPECT_EQ(find_run(store, "@last").uid, run.uid);
}

TEST_F(StoreOpen, UsesTheDocumentedSettings) {
  Store store = open_to_write();
  Database& database = store.database();
  EXPECT_EQ(database.query_text("PRAGMA journal_mode"), "wal");
  EXPECT_EQ(database.query_int64("PRAGMA synchronous"), 1);  // NORMAL
  EXPECT_EQ(database.query_int64("PRAGMA foreign_keys"), 1);
  EXPECT_EQ(database.query_int64("PRAGMA trusted_schema"), 0);
  EXPECT_EQ(database.query_int64("PRAGMA temp_store"), 2);  // MEMORY
  EXPECT_EQ(database.query_int64("PRAGMA mmap_size"), 0);
  EXPECT_EQ(database.query_int64("PRAGMA secure_delete"), 0);
  EXPECT_EQ(database.query_int64("PRAGMA wal_autocheckpoint"), 0);
}

// Simulates a process that was killed while it created the store.
TEST_F(StoreOpen, UnfinishedStoreIsReported) {
  {
    Database database(path, OpenMode::kCreate);
    database.configure();
    database.exec(fmt::format("PRAGMA application_id = {}", kApplicationId));
  }
  EXPECT_EQ(error_of([&] { open_to_read(); }),
            fmt::format("store: the store {} is empty: its creation was not finished; `runner gc` finishes it, or "
                        "choose another store with --db",
                        path.string()));
  EXPECT_EQ(error_of([&] { open_to_write(); }), "no error");
  EXPECT_EQ(error_of([&] { open_to_read(); }), "no error");
}

TEST_F(StoreOpen, ReadingAMissingStoreIsAnError) {
  EXPECT_EQ(error_of([&] { open_to_read(); }), fmt::format("store: the store {} does not exist; `runner exec` creates "
                                                           "it, or choose another store with --db or RUNNER_DB",
                                                           path.string()));
  EXPECT_EQ(folder.listing(), "");
}

TEST_F(StoreOpen, EmptyFileBecomesAStore) {
  write_file(path, "");
  EXPECT_EQ(error_of([&] { open_to_read(); }), fmt::format("store: the store {} is empty; `runner exec` fills it, or "
                                                           "choose another store with --db or RUNNER_DB",
                                                           path.string()));
  EXPECT_EQ(error_of([&] { open_to_write(); }), "no error");
  EXPECT_EQ(error_of([&] { open_to_read(); }), "no error");
}

TEST_F(StoreOpen, AMissingFolderIsAnError) {
  path = folder / "missing" / "runner.db";
  EXPECT_EQ(
      error_of([&] { open_to_write(); }),
      fmt::format("store: the store {} cannot be opened: unable to open database file, No such file or directory; "
                  "check that its folder exists and that you have access, or choose another store with --db",
                  path.string()));
}

TEST_F(StoreOpen, AFolderIsNotAStore) {
  EXPECT_EQ(error_of([&] { Store::open(folder.path(), Access::kWrite); }),
            fmt::format("store: {} is a folder, not a store; choose a file with --db", folder.path().string()));
}

// A rejected file and its folder are not modified.
class StoreRefuses : public StoreTest {
 protected:
  void expect_refused(const std::string& message) {
    const std::string before = read_text(path), listing = folder.listing();
    EXPECT_EQ(error_of([&] { open_to_read(); }), message);
    EXPECT_EQ(error_of([&] { open_to_write(); }), message);
    EXPECT_EQ(read_text(path), before);
    EXPECT_EQ(folder.listing(), listing);
  }

  void change_header(size_t at, const std::string& bytes) {
    { open_to_write(); }
    std::string file = read_text(path);
    file.replace(at, bytes.size(), bytes);
    write_file(path, file);
  }
};

TEST_F(StoreRefuses, AFileThatIsNotADatabase) {
  write_file(path, "step,loss\n1,0.5\n");
  expect_refused(fmt::format("store: {} is not an SQLite database; choose another file", path.string()));
  write_file(path, std::string(5000, 'x'));
  expect_refused(fmt::format("store: {} is not an SQLite database; choose another file", path.string()));
}

TEST_F(StoreRefuses, AnotherProgramsDatabase) {
  sqlite3* handle = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &handle), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(handle, "PRAGMA application_id = 7; CREATE TABLE t(x)", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(handle);
  expect_refused(
      fmt::format("store: {} is a database of another program (application id 0x7, expected 0x726e6e72); choose "
                  "another file",
                  path.string()));
}

TEST_F(StoreRefuses, ANewerStore) {
  change_header(60, std::string("\0\0\0\x63", 4));
  expect_refused(
      fmt::format("store: the store {} has schema version 99, but this runner supports versions up to {}; use a newer "
                  "runner, or choose another store with --db",
                  path.string(), migrations().size()));
}

TEST_F(StoreRefuses, ANegativeVersion) {
  change_header(60, std::string("\xff\xff\xff\xfb", 4));
  expect_refused(
      fmt::format("store: the store {} is damaged: its header has schema version -5; restore a backup, or choose "
                  "another store with --db",
                  path.string()));
}

TEST_F(StoreRefuses, AVersionThatIsOlderThanTheTables) {
  for (const int64_t version : {int64_t{0}, int64_t{1}, std::ssize(migrations()) - 1}) {
    { open_to_write().database().exec(fmt::format("PRAGMA user_version = {}", version)); }
    const std::string error = error_of([&] { open_to_write(); });
    EXPECT_NE(error.find(fmt::format("is damaged: its schema version is {}, but the column ", version)),
              std::string::npos)
        << error;
    fs::remove(path);
  }
}

// Written by a newer runner that is still running: the version is in the log, but not yet in the file.
TEST_F(StoreOpen, RefusesANewerStoreWhoseVersionIsInTheWal) {
  const Store newer = open_to_write();
  newer.database().exec("PRAGMA user_version = 99");
  EXPECT_EQ(error_of([&] { open_to_write(); }),
            fmt::format("store: the store {} has schema version 99, but this runner supports versions up to {}; use a "
                        "newer runner, or choose another store with --db",
                        path.string(), migrations().size()));
}

TEST_F(StoreRefuses, ATruncatedStore) {
  { open_to_write(); }
  fs::resize_file(path, 8192);
  expect_refused(
      fmt::format("store: the store {} is damaged: database disk image is malformed; restore a backup, or recover "
                  "readable data with `sqlite3 FILE .recover`",
                  path.string()));
}

TEST_F(StoreRefuses, ADamagedHeader) {
  change_header(16, std::string("\x03\x03", 2));  // invalid page size 771
  expect_refused(
      fmt::format("store: the store {} is damaged or not a database: file is not a database; restore a backup, or "
                  "choose another store with --db",
                  path.string()));
}

// SQLite would call such a file read-only, or reject it without naming damage.
TEST_F(StoreRefuses, ADamagedFormat) {
  const auto message = [this](const char* what) {
    return fmt::format(
        "store: the store {} is damaged: its header has {}; restore a backup, or choose another store with --db",
        path.string(), what);
  };
  for (const size_t at : {18, 19}) {
    fs::remove(path);
    change_header(at, "\x74");
    expect_refused(message("file format 116, expected at most 2"));
  }
  fs::remove(path);
  change_header(44, std::string("\0\0\0\xd1", 4));
  expect_refused(message("schema format 209, expected at most 4"));
}

TEST_F(StoreRefuses, AStoreWithoutItsTables) {
  const auto drop = [this](const std::string& table) {
    Database database(path, OpenMode::kReadWrite);
    database.exec("DROP TABLE " + table);
    return database.query_text("SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> 'sqlite_sequence'");
  };
  const auto message = [this](const char* what) {
    return fmt::format(
        "store: the store {} is damaged: {}; restore a backup, or recover readable data with `sqlite3 FILE .recover`",
        path.string(), what);
  };
  { open_to_write(); }
  drop("chunk");
  expect_refused(message("its table chunk is missing"));
  drop("event");
  std::string next = drop("tag");
  expect_refused(message("its tables chunk, event, tag are missing"));
  while (!next.empty()) next = drop(next);
  expect_refused(message("it has no tables"));
}

// Views and indexes by name with their SQL.
std::map<std::string, std::string> views_and_indexes(Database& database) {
  std::map<std::string, std::string> found;
  Statement rows(database, "SELECT name, sql FROM sqlite_schema WHERE type <> 'table' AND sql IS NOT NULL");
  while (rows.step()) found[rows.text(0)] = rows.text(1);
  return found;
}

void drop_views_and_indexes(Database& database) {
  for (const auto& [name, sql] : views_and_indexes(database))
    database.exec(fmt::format("DROP {} {}", sql.starts_with("CREATE VIEW") ? "VIEW" : "INDEX", name));
}

TEST_F(StoreOpen, MissingViewsAndIndexesAreCreatedAgain) {
  std::map<std::string, std::string> complete;
  {
    Store store = open_to_write();
    create_run(store, sample_run());
    complete = views_and_indexes(store.database());
  }
  ASSERT_GT(complete.size(), 20u);
  {
    Database database(path, OpenMode::kReadWrite);
    drop_views_and_indexes(database);
  }
  const std::string file = read_text(path);
  {
    Store store = open_to_read();
    EXPECT_EQ(store.database().query_int64("SELECT count(*) FROM runs"), 1);
    EXPECT_EQ(list_runs(store).size(), 1u);
  }
  EXPECT_EQ(read_text(path), file) << "reading does not write";
  Store store = open_to_write();
  EXPECT_EQ(views_and_indexes(store.database()), complete);
}

// Migrations replace views, which must exist for that.
TEST_F(StoreOpen, MissingViewsOfAnOlderStoreAreCreatedBeforeItIsMigrated) {
  { open_to_write(); }
  const auto complete = [this] {
    Store store = open_to_write();
    return views_and_indexes(store.database());
  };
  const std::map<std::string, std::string> newest = complete();
  for (size_t version = 1; version < migrations().size(); ++version) {
    SCOPED_TRACE(version);
    fs::remove(path);
    {
      Database database(path, OpenMode::kCreate);
      apply_migrations(database, 0, static_cast<int64_t>(version));
      database.exec(fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}", kApplicationId, version));
      drop_views_and_indexes(database);
    }
    EXPECT_EQ(complete(), newest);
  }
}

TEST_F(StoreOpen, AnOlderStoreWithoutItsTablesIsNotMigrated) {
  {
    Database database(path, OpenMode::kCreate);
    database.exec(migrations()[0]);
    database.exec(fmt::format("PRAGMA application_id = {}; PRAGMA user_version = 1; DROP TABLE note", kApplicationId));
  }
  const std::string file = read_text(path);
  EXPECT_EQ(error_of([&] { open_to_write(); }),
            fmt::format("store: the store {} is damaged: its table note is missing; restore a backup, or recover "
                        "readable data with `sqlite3 FILE .recover`",
                        path.string()));
  EXPECT_EQ(read_text(path), file);
}

TEST_F(StoreOpen, ErrorNamesADamagedSchema) {
  { open_to_write(); }
  std::string file = read_text(path);
  int places = 0;  // split pages contain stale copies
  for (size_t at = 0; (at = file.find("CREATE TABLE series", at)) != std::string::npos; ++places)
    file.replace(at, 6, "CRUMBS");
  ASSERT_GT(places, 0);
  write_file(path, file);
  EXPECT_EQ(error_of([&] {
              Store store = open_to_read();
              list_runs(store);
            }),
            fmt::format("store: the store {} is damaged: malformed database schema (series) - near \"CRUMBS\": syntax "
                        "error; restore a backup, or recover readable data with `sqlite3 FILE .recover`",
                        path.string()));
  EXPECT_EQ(read_text(path), file);
}

TEST_F(StoreOpen, AReadOnlyFolderCanBeReadButNotWritten) {
  {
    Store store = open_to_write();
    create_run(store, sample_run());
  }
  fs::permissions(path, fs::perms(0444));
  fs::permissions(folder.path(), fs::perms(0555));
  EXPECT_TRUE(as_unprivileged_user([&] {
    Store store = open_to_read();
    return find_run(store, "digits").seed == 42 && folder.listing() == "runner.db";
  }));
  EXPECT_TRUE(as_unprivileged_user([&] {
    return error_of([&] { open_to_write(); }) == fmt::format(
                                                     "store: the store {} cannot be written; make the file and its "
                                                     "folder writable, or choose another store with --db",
                                                     path.string());
  }));
}

TEST_F(StoreOpen, AnUnreadableFileIsAnError) {
  { open_to_write(); }
  fs::permissions(path, fs::perms::none);
  fs::permissions(folder.path(), fs::perms(0555));
  EXPECT_TRUE(as_unprivileged_user([&] {
    return error_of([&] { open_to_read(); }) ==
           fmt::format(
               "store: the store {} cannot be opened: unable to open database file, Permission denied; check that its "
               "folder exists and that you have access, or choose another store with --db",
               path.string());
  }));
}

TEST_F(StoreOpen, AFolderWithoutAccessIsTheReason) {
  fs::permissions(folder.path(), fs::perms(0555));
  EXPECT_TRUE(as_unprivileged_user([&] {
    return error_of([&] { open_to_write(); }) ==
           fmt::format(
               "store: the store {} cannot be opened: unable to open database file, Permission denied; check that its "
               "folder exists and that you have access, or choose another store with --db",
               path.string());
  }));
  fs::permissions(folder.path(), fs::perms(0444));
  EXPECT_TRUE(as_unprivileged_user([&] {
    return error_of([&] { open_to_read(); }) ==
           fmt::format(
               "store: the store {} cannot be opened: Permission denied; check that you have access, or choose "
               "another store with --db",
               path.string());
  }));
}

TEST_F(StoreOpen, ADeviceIsNotAStore) {
  EXPECT_EQ(error_of([&] { Store::open("/dev/null", Access::kWrite); }),
            "store: /dev/null is a device or a pipe, not a store; choose a file with --db");
  // Looks like a regular file. Reading others of its kind waits for ever.
  EXPECT_EQ(error_of([&] { Store::open("/proc/self/status", Access::kWrite); }),
            "store: /proc/self/status is a device or a pipe, not a store; choose a file with --db");
}

// If a folder becomes read-only while the log contains commits, readers read them through the log.
TEST_F(StoreOpen, AReadOnlyFolderWithALogIsReadWithIt) {
  Store store = open_to_write();
  const RunHandle run = create_run(store, sample_run());
  ASSERT_GT(fs::file_size(path.string() + "-wal"), 0u);
  for (const char* suffix : {"", "-wal", "-shm"}) fs::permissions(path.string() + suffix, fs::perms(0444));
  fs::permissions(folder.path(), fs::perms(0555));
  EXPECT_TRUE(as_unprivileged_user([&] {
    Store reader = open_to_read();
    return find_run(reader, "@last").uid == run.uid;
  }));
}

// With a limit on file sizes, as on a full disk, the first page cannot be written.
TEST_F(StoreOpen, AStoreThatCannotBeCreatedLeavesNoFile) {
  const auto create = [&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{.rlim_cur = 20'000, .rlim_max = RLIM_INFINITY};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    return error_of([&] { open_to_write(); }).find("cannot grow") != std::string::npos;
  };
  EXPECT_TRUE(in_child(create));
  EXPECT_EQ(folder.listing(), "");
  write_file(path, "");
  EXPECT_TRUE(in_child(create));
  EXPECT_EQ(folder.listing(), "runner.db") << "a file that was there is kept";
  EXPECT_EQ(fs::file_size(path), 0u);
}

// The process that began to create the store failed and removed the file, while another one waited for the lock.
TEST_F(StoreOpen, AProcessThatWaitsForARemovedFileCreatesAnotherOne) {
  static std::function<void()> when_waiting;
  std::optional<Database> first(std::in_place, path, OpenMode::kCreate);
  first->configure();
  std::optional<Transaction> lock(std::in_place, *first, Transaction::Kind::kExclusive);
  when_waiting = [&] {
    fs::remove(path);
    lock.reset();
  };
  set_lock_notice([](const fs::path&) { when_waiting(); });
  const RunHandle run = [&] {
    Store store = open_to_write();
    return create_run(store, sample_run());
  }();
  set_lock_notice(nullptr);
  first.reset();
  Store store = open_to_read();
  EXPECT_EQ(find_run(store, "@last").uid, run.uid);
}

// integrity_check reports an allocation that fails as a row, like damage.
TEST_F(StoreOpen, ACheckWithoutMemoryDoesNotReportDamage) {
  {
    Store store = open_to_write();
    for (int i = 0; i < 300; ++i) create_run(store, sample_run());
  }
  int refused = 0;
  for (int64_t kib = 16; kib < 2000; kib += kib / 16) {
    Store store = open_to_read();
    const int64_t used = sqlite3_memory_used();
    sqlite3_hard_heap_limit64(used + kib * 1024);
    const std::string error = error_of([&] { store.check_file(); });
    sqlite3_hard_heap_limit64(0);
    if (error == "no error") continue;
    ++refused;
    EXPECT_NE(error.find("out of memory"), std::string::npos) << error << ", " << kib << " KiB";
    EXPECT_EQ(error.find("damaged"), std::string::npos) << error << ", " << kib << " KiB";
  }
  EXPECT_GT(refused, 0);
}

TEST_F(StoreOpen, TwoProcessesCreateOneStoreConcurrently) {
  for (int round = 0; round < 10; ++round) {
    fs::remove(path);
    int gate[2];
    ASSERT_EQ(::pipe(gate), 0);
    std::vector<pid_t> children;
    for (int i = 0; i < 2; ++i) {
      children.push_back(::fork());
      if (children.back() != 0) continue;
      char byte = 0;
      ::close(gate[1]);
      static_cast<void>(::read(gate[0], &byte, 1));  // returns in all children when the parent closes the pipe
      const std::string error = error_of([&] {
        Store store = open_to_write();
        create_run(store, sample_run());
      });
      if (error != "no error") std::fprintf(stderr, "%s\n", error.c_str());
      ::_exit(error == "no error" ? 0 : 1);
    }
    ::close(gate[0]);
    ::close(gate[1]);
    for (const pid_t child : children) {
      int status = 0;
      ::waitpid(child, &status, 0);
      EXPECT_EQ(status, 0);
    }
    Store store = open_to_read();
    EXPECT_EQ(list_runs(store).size(), 2u);
  }
}

// The guard holds the write lock. If another connection is inside a write transaction, the WAL checkpoint gives up at
// once and the log is not changed.
TEST_F(StoreOpen, ACheckpointNeedsThatNoOneElseWrites) {
  Store store = open_to_write();
  create_run(store, sample_run());
  const auto file_size = [&] { return fs::file_size(path); };
  const auto before = file_size();
  Store other = open_to_write();
  {
    const Transaction writing(other.database(), Transaction::Kind::kWrite);
    store.checkpoint(1);
    EXPECT_EQ(read_text(path).size(), before);
  }
  const std::string file = read_text(path);
  create_run(store, sample_run());  // the next checkpoint requires that the log has grown
  store.checkpoint(1);
  EXPECT_NE(read_text(path), file);
  // The next commit restarts the log.
  const auto log_pages = store.database().wal_pages();
  add_tag(store, 1, "best");
  EXPECT_LT(store.database().wal_pages(), log_pages);
}

}  // namespace
}  // namespace runner::store
