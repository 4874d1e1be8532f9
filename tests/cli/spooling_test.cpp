#include "runner/cli/spooling.h"

#include <cstdio>
#include <memory>
#include <thread>

#include "tests/store/network_store.h"

namespace runner::cli {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

class LeftSpools : public store::NetworkTest {
 protected:
  LeftSpools() { options.db = path; }

  // Records a run with a state in a spool, which stays claimed.
  store::Spool record(store::RunStatus status) {
    store::Spool spool = store::Spool::create(path);
    store::Store store = store::Store::open(spool.file(), store::Access::kWrite);
    const store::RunInfo info = store::sample_run();
    const store::RunHandle run = store::create_run(store, info);
    // Of another process, which is running as long as its heartbeat is new.
    store.database().exec("UPDATE attempt SET host = 'node7', boot_id = 'b', pid_namespace = 'n', pid = 4");
    uid = run.uid;
    if (status != store::RunStatus::kRunning)
      store::finish_run(store, run, {.status = status, .exit_code = 4, .reason = "", .summary_json = ""});
    return spool;
  }
  std::string error_of_ingestion(const NeededRun& needed) {
    return store::error_of([&] { ingest_left_spools(options, needed, out); });
  }
  bool is_in_store() {
    if (!store::store_exists(path)) return false;
    store::Store store = store::Store::open(path, store::Access::kRead);
    return !store::list_runs(store).empty();
  }

  Options options;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file{std::tmpfile(), std::fclose};
  report::Output out{report::ColorMode::kNever, fileno(file.get()), fileno(file.get())};
  std::string uid;
};

TEST_F(LeftSpools, OfTheNeededRunAreAwaitedWhileAnotherProcessIngestsThem) {
  std::optional<store::Spool> spool(record(store::RunStatus::kInterrupted));
  std::thread other([&] {
    std::this_thread::sleep_for(300ms);
    spool.reset();
  });
  EXPECT_EQ(error_of_ingestion({.selector = uid}), "no error");
  other.join();
  EXPECT_TRUE(is_in_store());
  EXPECT_TRUE(store::spools_of(path).empty());
}

TEST_F(LeftSpools, OfOtherRunsAreNotAwaited) {
  const store::Spool spool = record(store::RunStatus::kInterrupted);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(error_of_ingestion({.selector = "other"}), "no error");
  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
  EXPECT_FALSE(is_in_store());
}

TEST_F(LeftSpools, OfTheNeededRunMustBeIngested) {
  const fs::path file_of_spool = record(store::RunStatus::kInterrupted).file();
  fs::create_directory(path);  // opening it as a store fails
  EXPECT_EQ(error_of_ingestion({.selector = "other"}), "no error");
  EXPECT_EQ(error_of_ingestion({.selector = "digits"}),
            fmt::format("store: the newest states of run {} are in the spool {}, which cannot be ingested: {} is a "
                        "folder, not a store; choose a file with --db",
                        uid, file_of_spool.string(), path.string()));
}

TEST_F(LeftSpools, OfARunningProcessCanBeForkedButNotResumed) {
  const store::Spool spool = record(store::RunStatus::kRunning);
  EXPECT_EQ(error_of_ingestion({.selector = uid, .may_be_running = true}), "no error");
  EXPECT_NE(error_of_ingestion({.selector = uid}).find("is still running as process 4 on node7"), std::string::npos);
}

// Noting them must not make them look as if they were in use.
TEST_F(LeftSpools, AreNotedWithoutTheirLock) {
  { record(store::RunStatus::kInterrupted); }
  fs::permissions(store::spools_of(path)[0].string() + ".lock", fs::perms(0400));
  note_left_spools(options, out);
  std::string text(1000, '\0');
  std::rewind(file.get());
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  EXPECT_EQ(text.find("note: 1 spool of runs whose process has ended"), 0u) << text;
}

}  // namespace
}  // namespace runner::cli
