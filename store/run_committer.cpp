#include "store/run_committer.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>
#include <utility>

#include "store/log_room.h"

namespace runner::store {
namespace {

constexpr std::array<std::string_view, 3> kLevelNames{"info", "warning", "error"};

}  // namespace

std::string_view to_string(Level level) {
  return kLevelNames[static_cast<size_t>(level)];
}

RunCommitter::RunCommitter(Store store, std::variant<RunInfo, RunHandle> run, const WriterOptions& options)
    : store_(std::move(store)), run_(std::move(run)), options_(options) {}

const RunHandle& RunCommitter::begin() {
  if (const auto* info = std::get_if<RunInfo>(&run_)) run_ = create_run(store_, *info);
  const RunHandle& run = std::get<RunHandle>(run_);
  if (!series_) series_.emplace(store_.database(), run.id);
  return run;
}

bool RunCommitter::heartbeat_due() const {
  return !finished_ && std::chrono::steady_clock::now() - last_heartbeat_ >= options_.heartbeat_every;
}

void RunCommitter::write_events() {
  if (events_.empty()) return;
  const RunHandle& run = std::get<RunHandle>(run_);
  Statement insert(store_.database(),
                   "INSERT INTO event(run_id, attempt, time_ms, level, kind, json) VALUES(?1, ?2, ?3, ?4, ?5, ?6)");
  for (const Event& event : events_) {
    insert.bind(run.id, run.attempt, event.time_ms, to_string(event.level), event.kind, event.json).run();
  }
}

void RunCommitter::add_compiled_graphs(CompiledGraphs graphs) {
  std::ranges::move(graphs.made, std::back_inserter(compiled_graphs_.made));
  std::ranges::move(graphs.used, std::back_inserter(compiled_graphs_.used));
}

bool RunCommitter::commit(int64_t dropped_points, bool durable) {
  const RunHandle& run = begin();
  const bool given =
      series_->pending() > 0 || !events_.empty() || provenance_ || device_report_ || !compiled_graphs_.empty();
  if (!durable && !given && !heartbeat_due()) return false;
  Transaction transaction(store_.database(), Transaction::Kind::kWrite, durable);
  series_->write();
  write_events();
  if (provenance_) put_provenance(store_, run, *provenance_);
  if (device_report_) put_device_report(store_, run, *device_report_);
  put_compiled_graphs(store_, compiled_graphs_);
  heartbeat(store_, run, dropped_points);  // each commit counts as a heartbeat
  commit_with_room(store_.database(), transaction);
  series_->committed();
  events_.clear();
  provenance_.reset();
  device_report_.reset();
  compiled_graphs_ = {};
  last_heartbeat_ = std::chrono::steady_clock::now();
  return true;
}

StateInfo RunCommitter::save(const StateSnapshot& snapshot) {
  return save_state(store_, begin(), snapshot.header, snapshot.sections(), options_.state_chunk_bytes);
}

void RunCommitter::prune(const Retention& retention) {
  prune_states(store_, begin().id, retention);
}

ArtifactInfo RunCommitter::save(const ArtifactHeader& header, const ArtifactSource& source) {
  return save_artifact(store_, begin(), header, source);
}

void RunCommitter::finish(const RunEnd& end) {
  finish_run(store_, begin(), end);
  finished_ = true;
}

void RunCommitter::give_up(const RunEnd& end, int64_t dropped_points) {
  const RunHandle& run = begin();
  const int64_t dropped = dropped_points + series_->pending();
  try {
    finish_run(store_, run, end, dropped);
  } catch (const SqliteError& error) {
    if (error.is_busy()) throw;
    // The summary may be larger than the reserved log space.
    finish_run(store_, run, {end.status, end.exit_code, end.reason, ""}, dropped);
  }
  finished_ = true;
}

void RunCommitter::checkpoint() {
  store_.checkpoint(options_.checkpoint_pages);
}

void RunCommitter::fold_log() {
  store_.checkpoint(1);
}

}  // namespace runner::store
