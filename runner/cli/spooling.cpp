#include "runner/cli/spooling.h"

#include <algorithm>
#include <system_error>
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

// A state with this number, or the newest ones first, of which the first that is intact is used.
std::vector<int64_t> candidates(store::Store& store, const store::RunRow& run, std::optional<int64_t> state) {
  if (state) return {*state};
  std::vector<int64_t> ids;
  for (const store::StateInfo& info : store::list_states(store, run.id, /*for_resume=*/true)) ids.push_back(info.id);
  return ids;
}

// Copies the run with the first of `states` that is not damaged. Without any, the run alone, so that training reports
// what is wrong with them.
void check_out_intact(store::Store& store, const store::RunRow& run, const std::vector<int64_t>& states,
                      store::CheckOut use, store::Store& spool) {
  for (const int64_t state : states) {
    try {
      return store::check_out(store, run, {state}, use, spool);
    } catch (const Error&) {  // damaged
    }
  }
  store::check_out(store, run, {}, use, spool);
}

// A hook may load any state of its run.
void check_out_all(store::Store& store, const store::RunRow& run, const std::vector<int64_t>& states,
                   store::Store& spool) {
  try {
    store::check_out(store, run, states, store::CheckOut::kResume, spool);
  } catch (const Error&) {  // one of them is damaged
    check_out_intact(store, run, states, store::CheckOut::kResume, spool);
  }
}

void check_out_resumed(store::Store& store, const Attempt& attempt, store::Store& spool) {
  const train::RunOrigin& origin = attempt.start.origin;
  const store::RunRow run = store::find_run(store, origin.resume);
  const std::vector<int64_t> states = candidates(store, run, origin.state);
  if (attempt.recipe.recipe.hooks.empty() || states.empty())
    return check_out_intact(store, run, states, store::CheckOut::kResume, spool);
  check_out_all(store, run, origin.state ? candidates(store, run, std::nullopt) : states, spool);
}

void check_out_parent(store::Store& store, const train::ForkRequest& fork, store::Store& spool) {
  const store::RunRow run = store::find_run(store, fork.run);
  const std::optional<int64_t> state = fork.state < 0 ? std::nullopt : std::optional(fork.state);
  check_out_intact(store, run, candidates(store, run, state), store::CheckOut::kFork, spool);
}

// The store is created only later, so what would make that impossible is an error now.
void check_can_be_created(const fs::path& store) {
  const fs::path folder = store::folder_of(store);
  RUN_CHECK(::access(folder.c_str(), W_OK | X_OK) == 0, ErrorKind::kStore,
            "the store {} cannot be created: its folder does not exist or is not writable; choose another store with "
            "--db",
            store.string());
}

bool is_spool(const fs::path& file) {
  return is_inside(file, store::spool_root());
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
  ingester_.emplace(spool_->file(), store_);
}

void RecordingPlace::fill(const Attempt& attempt) {
  store::Store spool = store::Store::open(spool_->file(), store::Access::kWrite);
  spool.sync_new_file();
  if (!store::store_exists(store_)) return check_can_be_created(store_);
  store::Store store = store::Store::open(store_, store::Access::kEdit);  // converts an older layout
  const train::RunOrigin& origin = attempt.start.origin;
  if (!origin.resume.empty()) check_out_resumed(store, attempt, spool);
  if (origin.fork != nullptr) check_out_parent(store, *origin.fork, spool);
  if (attempt.recipe.recipe.tpu.persistent_cache) store::copy_compiled_graphs(store, spool);
  store::continue_state_numbers(store, spool);
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
    if (auto used = ingester_->stuck())
      backends::abandon(std::move(used), fmt::format("the disk of the store {} does not answer", store_.string()));
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
  const bool has_owner = is_spool(file);
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

void ingest_left_spools(const Options& options, report::Output& out) {
  const fs::path store = store_path(options);
  if (store::network_file_system(store).empty()) return;
  for (const fs::path& file : store::spools_of(store)) {
    try {
      for (const store::IngestedRun& run : ingest_file(file, store).runs) out.say(ingested_text(run, file));
    } catch (const Error& error) {
      out.say(fmt::format("warning: the spool {} cannot be ingested: {}", file.string(), error.message()));
    }
  }
}

void note_left_spools(const Options& options, report::Output& out) {
  const fs::path store = store_path(options);
  if (store::network_file_system(store).empty()) return;
  int64_t left = 0;
  for (const fs::path& file : store::spools_of(store)) left += store::Spool::claim(file).has_value() ? 1 : 0;
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
