#include "runner/cli/spooling.h"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "backends/runtime/abandoned.h"
#include "runner/cli/store_access.h"
#include "runner/train/run/checkpoint/restore.h"
#include "schema/base/file.h"
#include "schema/base/text.h"
#include "store/network.h"
#include "store/sqlite.h"
#include "store/state_store.h"

namespace runner::cli {
namespace {

namespace fs = std::filesystem;

int64_t attempts_in(const fs::path& file) {
  store::Store store = store::Store::open(file, store::Access::kRead);
  return store.database().query_int64("SELECT count(*) FROM attempt");
}

// Returns this state, or all states of the run, the newest first. The first intact one is used.
std::vector<int64_t> candidates(store::Store& store, const store::RunRow& run, std::optional<int64_t> state) {
  if (state) return {*state};
  std::vector<int64_t> ids;
  for (const store::StateInfo& info : store::list_states(store, run.id, /*for_resume=*/true)) ids.push_back(info.id);
  return ids;
}

// Repeats `work` for up to a minute while another process has the lock of the store. At the start of an array of jobs,
// many processes wait for it.
template <class Work>
auto with_patience(const Work& work) {
  constexpr std::chrono::minutes kPatience{1};
  for (const auto start = std::chrono::steady_clock::now();;) {
    try {
      return work();
    } catch (const store::SqliteError& error) {
      if (!error.is_busy() || std::chrono::steady_clock::now() - start >= kPatience) throw;
    }
  }
}

// The run that an attempt resumes or forks, as it is copied into the spool.
struct Origin {
  std::string uid;  // empty for a new run
  std::vector<int64_t> states;
  bool needs_all_states = false;  // instead of the first one that is intact
  store::CheckOut use = store::CheckOut::kResume;
};

// Returns false if the contents of one of the states are damaged.
bool check_out(const fs::path& store, const Origin& origin, const std::vector<int64_t>& states, store::Store& spool) {
  try {
    with_patience([&] { store::check_out(store, origin.uid, states, origin.use, spool); });
  } catch (const store::SqliteError& error) {
    if (!error.is_damage() || states.empty()) throw;
    return false;
  }
  return true;
}

// Copies the run with the first of its states that is not damaged. Without any, the run alone, so that training reports
// what is wrong with them.
void check_out(const fs::path& store, const Origin& origin, store::Store& spool) {
  if (origin.needs_all_states && check_out(store, origin, origin.states, spool)) return;
  for (const int64_t state : origin.states)
    if (check_out(store, origin, {state}, spool)) return;
  check_out(store, origin, {}, spool);
}

Origin resumed_run(store::Store& store, const Attempt& attempt) {
  const train::RunOrigin& origin = attempt.start.origin;
  const store::RunRow run = store::find_run(store, origin.resume);
  Origin resumed{.uid = run.uid, .states = candidates(store, run, origin.state)};
  // A hook may load any state of its run.
  resumed.needs_all_states = !attempt.recipe.recipe.hooks.empty() && !resumed.states.empty();
  if (resumed.needs_all_states && origin.state) resumed.states = candidates(store, run, std::nullopt);
  return resumed;
}

Origin parent(store::Store& store, const train::ForkRequest& fork) {
  const store::RunRow run = store::find_run(store, fork.run);
  const std::optional<int64_t> state = fork.state < 0 ? std::nullopt : std::optional(fork.state);
  return {.uid = run.uid, .states = candidates(store, run, state), .use = store::CheckOut::kFork};
}

std::vector<Origin> origins_of(const fs::path& file, const Attempt& attempt) {
  store::Store store = store::Store::open(file, store::Access::kEdit);  // converts an older layout
  const train::RunOrigin& origin = attempt.start.origin;
  std::vector<Origin> origins;
  if (!origin.resume.empty()) origins.push_back(resumed_run(store, attempt));
  if (origin.fork != nullptr) origins.push_back(parent(store, *origin.fork));
  return origins;
}

// The store is created only later, so what would make that impossible is an error now.
void check_can_be_created(const fs::path& store) {
  const fs::path folder = store::folder_of(store);
  RUN_CHECK(::access(folder.c_str(), W_OK | X_OK) == 0, ErrorKind::kStore,
            "the store {} cannot be created: its folder does not exist or is not writable; choose another store with "
            "--db",
            store.string());
}

// Whether nothing of a spool is lost with its file.
bool is_redundant(const std::vector<store::IngestedRun>& runs) {
  return std::ranges::none_of(runs, &store::IngestedRun::has_unseen);
}

// Converts a spool that an older version has left.
void check_file(const fs::path& file, bool is_spool) {
  store::Store::open(file, is_spool ? store::Access::kEdit : store::Access::kRead).check_file();
}

}  // namespace

RecordingPlace::RecordingPlace(const Attempt& attempt, const Options& options) : store_(store_path(options)) {
  if (store::network_file_system(store_).empty()) return;
  spool_.emplace(store::Spool::create(store_));
  try {
    fill(attempt);
    attempts_ = attempts_in(spool_->file());
  } catch (const Error&) {
    spool_->remove();
    throw;
  }
  const auto abandon = [text = fmt::format("the disk of the store {} does not answer", store_.string())](
                           std::shared_ptr<void> used) { backends::abandon(std::move(used), text); };
  ingester_.emplace(spool_->file(), store_, store::IngesterOptions{.abandon = abandon});
}

void RecordingPlace::report_delays(train::Observer& observer) {
  if (!ingester_) return;
  for (const std::string& failure : ingester_->take_failures())
    observer.on_warning(fmt::format("the run is recorded in the spool {}, but cannot be copied into the store yet: {}",
                                    spool_->file().string(), failure));
}

void RecordingPlace::fill(const Attempt& attempt) {
  store::Store spool = store::Store::open(spool_->file(), store::Access::kWrite);
  spool.sync_new_file();
  if (!store::store_exists(store_)) return check_can_be_created(store_);
  for (const Origin& origin : with_patience([&] { return origins_of(store_, attempt); }))
    check_out(store_, origin, spool);
  with_patience([&] {
    store::Store store = store::Store::open(store_, store::Access::kRead);
    if (attempt.recipe.recipe.tpu.persistent_cache) store::copy_compiled_graphs(store, spool);
    store::continue_state_numbers(store, spool);
  });
}

RecordingPlace::~RecordingPlace() {
  if (!ingester_) return;
  ingester_.reset();
  try {
    if (attempts_in(spool_->file()) == attempts_) spool_->remove();
  } catch (const Error&) {  // it stays
  }
}

void RecordingPlace::finish(train::RunResult& result, train::Observer& observer) {
  if (!ingester_ || result.run.empty()) return;
  try {
    finish_spool(result);
  } catch (const Error& error) {
    report_failure(result, observer, error);
  }
}

void RecordingPlace::finish_spool(train::RunResult& result) {
  const std::vector<store::IngestedRun> runs = ingester_->finish();
  RUN_CHECK(is_redundant(runs), ErrorKind::kStore, "another process has continued the run meanwhile");
  ingester_.reset();
  spool_->remove();
  for (const store::IngestedRun& run : runs)
    if (run.uid == result.run) result.states = run.kept;
}

void RecordingPlace::report_failure(train::RunResult& result, train::Observer& observer, const Error& error) const {
  const std::string text = fmt::format(
      "run {} is safe in the spool {}, but not in the store {}: {}; when the store can be used, move it there with "
      "`runner ingest` on this machine",
      result.run, spool_->file().string(), store_.string(), error.message());
  if (result.error) {
    result.warnings.push_back(text);
    return observer.on_warning(text);
  }
  result.error = train::RunError{.message = text, .file = {}, .line = 0, .text = text};
  result.exit_code = exit_code(ErrorKind::kStore);
}

IngestedFile ingest_file(const fs::path& file, const fs::path& store) {
  RUN_CHECK(fs::exists(file), ErrorKind::kStore, "there is no file {}; name a spool, or a store to copy runs from",
            file.string());
  const bool has_owner = store::is_spool(file);
  std::optional<store::Spool> spool = has_owner ? store::Spool::claim(file) : std::nullopt;
  if (has_owner && !spool) return {.file = file, .runs = {}, .is_in_use = true};
  if (spool && !store::store_exists(file)) {  // its process was killed before it created the spool
    spool->remove();
    return {.file = file, .runs = {}};
  }
  check_file(file, spool.has_value());
  IngestedFile ingested{.file = file, .runs = store::ingest(file, store)};
  if (spool && store::is_spool_of(file, store) && is_redundant(ingested.runs)) spool->remove();
  return ingested;
}

namespace {

// A spool that could not be ingested.
struct LeftSpool {
  fs::path file;
  std::optional<Error> failure;  // none: another process has it
};

IngestedFile ingest_and_report(const fs::path& file, const fs::path& store, report::Output& out) {
  IngestedFile ingested = ingest_file(file, store);
  for (const store::IngestedRun& run : ingested.runs) out.say(ingested_text(run, file));
  return ingested;
}

std::vector<LeftSpool> ingest_free_spools(const fs::path& store, report::Output& out) {
  const auto warn = [&](const fs::path& file, const Error& error) {
    out.say(fmt::format("warning: the spool {} cannot be ingested: {}", file.string(), error.message()));
  };
  std::vector<LeftSpool> left;
  for (const fs::path& file : store::spools_of(store)) {
    try {
      if (ingest_and_report(file, store, out).is_in_use) left.push_back({file, std::nullopt});
    } catch (const store::ContinuedTwice& error) {  // the store's copy can be used
      warn(file, error);
    } catch (const Error& error) {
      warn(file, error);
      left.push_back({file, error});
    }
  }
  return left;
}

// Returns the run that a selector names, or "" if there is none.
std::string uid_in(const fs::path& file, const std::string& selector) {
  try {
    store::Store store = store::Store::open(file, store::Access::kRead);
    return store::find_run(store, selector).uid;
  } catch (const Error&) {
    return "";
  }
}

// The id of the run that a command needs. A run that is not in the store may be in one of the spools.
std::string uid_of(const std::string& selector, const fs::path& store, const std::vector<LeftSpool>& left) {
  std::string uid = uid_in(store, selector);
  for (const LeftSpool& spool : left)
    if (uid.empty()) uid = uid_in(spool.file, selector);
  return uid;
}

// The needed run as it is in a spool; none if the spool does not have it, or cannot be read.
std::optional<store::RunRow> needed_run_in(const fs::path& file, const NeededRun& needed, const std::string& uid) {
  try {
    store::Store spool = store::Store::open(file, store::Access::kRead);
    for (store::RunRow& run : store::list_runs(spool)) {
      const bool is_needed = !needed.selector.empty() ? run.uid == uid
                             : !needed.parent.empty() ? run.parent == needed.parent
                                                      : run.parent.empty() && run.name == needed.name;
      if (!is_needed) continue;
      if (!needed.may_be_running) store::check_not_running(spool, run.id, "resume");
      return std::move(run);
    }
  } catch (const store::SqliteError&) {  // it cannot be read
  }
  return std::nullopt;
}

// Waits for the process that has the spool. It may be ingesting the spool.
void ingest_needed(const fs::path& file, const fs::path& store, const NeededRun& needed, const std::string& uid,
                   report::Output& out) {
  const auto start = std::chrono::steady_clock::now();
  while (fs::exists(file)) {
    const std::optional<store::RunRow> run = needed_run_in(file, needed, uid);
    if (!run || run->status == store::RunStatus::kRunning) return;  // a running process ingests it itself
    if (!store::Spool::is_in_use(file) && !ingest_and_report(file, store, out).is_in_use) return;
    RUN_CHECK(std::chrono::steady_clock::now() - start < store::kLockLimit, ErrorKind::kStore,
              "the newest states of run {} are in the spool {}, which another process is ingesting; wait for that "
              "process, then try again",
              run->uid, file.string());
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

}  // namespace

void ingest_left_spools(const Options& options, const NeededRun& needed, report::Output& out) {
  const fs::path store = store_path(options);
  if (store::network_file_system(store).empty()) return;
  const std::vector<LeftSpool> left = ingest_free_spools(store, out);
  if (left.empty()) return;
  const std::string uid = needed.selector.empty() ? "" : uid_of(needed.selector, store, left);
  for (const auto& [file, failure] : left) {
    if (!failure) {
      ingest_needed(file, store, needed, uid, out);
    } else if (const auto run = needed_run_in(file, needed, uid)) {
      fail(ErrorKind::kStore, "the newest states of run {} are in the spool {}, which cannot be ingested: {}", run->uid,
           file.string(), failure->message());
    }
  }
}

void note_left_spools(const Options& options, report::Output& out) {
  const fs::path store = store_path(options);
  if (store::network_file_system(store).empty()) return;
  int64_t left = 0;
  for (const fs::path& file : store::spools_of(store)) left += store::Spool::is_in_use(file) ? 0 : 1;
  if (left > 0)
    out.say(with_store_option(
        fmt::format("note: {} of runs whose process has ended {} not in the store {} yet; "
                    "`runner ingest` moves {} there",
                    count_text(left, "spool"), left == 1 ? "is" : "are", store.string(), left == 1 ? "it" : "them"),
        options));
}

std::string ingested_text(const store::IngestedRun& run, const fs::path& file) {
  const std::string title = fmt::format("run {} ({})", run.uid, run.name);
  switch (run.result) {
    case store::IngestResult::kCopied:
      return fmt::format("{} was ingested with {} from {}", title, count_text(run.states, "new state"), file.string());
    case store::IngestResult::kUnchanged: return fmt::format("{} in {} has nothing new", title, file.string());
    case store::IngestResult::kOlder: break;
  }
  return fmt::format("{} was continued in the store after {} was written, which is left as it is", title,
                     file.string());
}

}  // namespace runner::cli
