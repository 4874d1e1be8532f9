#include "store/run_writer.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "schema/base/clock.h"
#include "schema/base/signals_blocked.h"

namespace runner::store {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kShortestNap{2};
constexpr size_t kAll = SIZE_MAX;  // no limit
constexpr size_t kHeldRings = 4;   // limit of uncommitted points in memory, in ring capacities

// Converts a steady_clock time to CLOCK_MONOTONIC. On Linux they are the same clock.
timespec monotonic_time(Clock::time_point time) {
  const auto since_boot = std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
  return {.tv_sec = since_boot / 1'000'000'000, .tv_nsec = since_boot % 1'000'000'000};
}

}  // namespace

RunWriter::RunWriter(Store store, std::variant<RunInfo, RunHandle> run, WriterOptions options)
    : uid_(std::visit([](const auto& r) { return r.uid; }, run)),
      path_(store.path().string()),
      options_(options),
      ring_(options.ring_points),
      committer_(std::move(store), std::move(run), options) {
  ::sem_init(&wake_, /*pshared=*/0, 0);
  const SignalsBlocked blocked;
  thread_ = std::thread([this] { work(); });
}

RunWriter::RunWriter(Store store, RunInfo info, WriterOptions options)
    : RunWriter(std::move(store), std::variant<RunInfo, RunHandle>(std::move(info)), options) {}

RunWriter::RunWriter(Store store, RunHandle run, WriterOptions options)
    : RunWriter(std::move(store), std::variant<RunInfo, RunHandle>(std::move(run)), options) {}

RunWriter::~RunWriter() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake();
  thread_.join();
  ::sem_destroy(&wake_);
}

template <class Result, class Work>
Outcome<Result> RunWriter::submit(Work work) {
  Outcome<Result> outcome;
  {
    const std::lock_guard lock(mutex_);
    tasks_.emplace_back([outcome, work = std::move(work)](RunCommitter& committer) mutable {
      outcome.run([&] { return work(committer); });
    });
  }
  wake();
  return outcome;
}

RunHandle RunWriter::wait_until_recorded() {
  return submit<RunHandle>([](RunCommitter& committer) { return committer.begin(); }).get();
}

SeriesIndex RunWriter::series(std::string_view name, std::optional<bool> larger_is_better) {
  if (const auto known = series_.find(name); known != series_.end()) return known->second;
  const auto index = static_cast<SeriesIndex>(series_.size());
  series_.emplace(name, index);
  const std::lock_guard lock(mutex_);
  names_.push_back({std::string(name), larger_is_better});
  return index;
}

bool RunWriter::push(SeriesIndex series, int64_t step, double value) noexcept {
  if (!ring_.push({series, {step, coarse_now_ms(), value}})) {
    dropped_.store(dropped_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);  // only this thread writes
                                                                                              // it
    return false;
  }
  if (ring_.half_full()) wake();
  return true;
}

void RunWriter::event(Level level, std::string kind, std::string json) {
  RunCommitter::Event event{now_ms(), level, std::move(kind), std::move(json)};
  submit([event = std::move(event)](RunCommitter& committer) mutable { committer.add_event(std::move(event)); });
}

void RunWriter::provenance(Provenance provenance) {
  submit([provenance = std::move(provenance)](RunCommitter& committer) mutable {
    committer.add_provenance(std::move(provenance));
  });
}

void RunWriter::device_report(DeviceReport report) {
  submit([report = std::move(report)](RunCommitter& committer) mutable {
    committer.add_device_report(std::move(report));
    return std::monostate();
  });
}

void RunWriter::compiled_graphs(CompiledGraphs graphs) {
  submit([graphs = std::move(graphs)](RunCommitter& committer) mutable {
    committer.add_compiled_graphs(std::move(graphs));
    return std::monostate();
  });
}

StateSnapshot RunWriter::snapshot() {
  const std::lock_guard lock(mutex_);
  StateSnapshot snapshot = std::exchange(spare_, {});
  snapshot.clear();
  return snapshot;
}

Outcome<StateInfo> RunWriter::save_state(StateSnapshot snapshot, Retention retention) {
  {
    std::unique_lock lock(mutex_);
    saved_.wait(lock, [this] { return !saving_; });
    saving_ = true;
  }
  return submit<StateInfo>([this, snapshot = std::move(snapshot), retention = std::move(retention)](
                               RunCommitter&) mutable { return save(std::move(snapshot), retention); });
}

Outcome<ArtifactInfo> RunWriter::save_artifact(ArtifactHeader header, ArtifactSource source) {
  if (artifact_) artifact_->wait();
  artifact_ = submit<ArtifactInfo>([this, header = std::move(header), source = std::move(source)](
                                       RunCommitter&) mutable { return save(header, std::exchange(source, {})); });
  return *artifact_;
}

WriterCounters RunWriter::counters() const {
  return {ring_.pushed(), committed_.load(), dropped_.load(), failures_.load()};
}

std::vector<std::string> RunWriter::take_warnings() {
  return warnings_.take();
}

void RunWriter::work() {
  const size_t limit = kHeldRings * ring_.capacity();
  try_to_commit(limit);  // creates the run
  for (bool stopping = false; !stopping;) {
    stopping = rest();
    std::vector<Task> tasks;
    {
      const std::lock_guard lock(mutex_);
      tasks.swap(tasks_);
    }
    take_points(limit);
    for (Task& task : tasks) task(committer_);
    if (stopping || Clock::now() - last_try_ >= options_.flush_every) try_to_commit(stopping ? kAll : limit);
  }
}

// Sleeps until woken or until the next drain is due. Returns whether the thread has to stop after this round.
bool RunWriter::rest() {
  const timespec until = monotonic_time(Clock::now() + next_nap());
  if (::sem_clockwait(&wake_, CLOCK_MONOTONIC, &until) == 0) {
    while (::sem_trywait(&wake_) == 0) {
    }
  }
  const std::lock_guard lock(mutex_);
  return stopping_;
}

// Returns the estimated time in which the ring becomes a quarter full. The training thread then rarely needs to wake
// this thread.
milliseconds RunWriter::next_nap() {
  const auto now = Clock::now();
  const int64_t pushed = ring_.pushed();
  const auto a_quarter = static_cast<int64_t>(ring_.capacity() / 4);
  const auto nap = (now - last_nap_) * a_quarter / (pushed - pushed_at_last_nap_ + 1);
  last_nap_ = now;
  pushed_at_last_nap_ = pushed;
  return std::clamp(std::chrono::duration_cast<milliseconds>(nap), kShortestNap, options_.flush_every);
}

// Moves points from the ring into the committer, until the committer holds `limit` uncommitted points.
void RunWriter::take_points(size_t limit) {
  if (!committer_.begun()) return;
  SeriesWriter& series = committer_.series();
  const auto held = static_cast<size_t>(series.pending());
  ring_.drain(limit - std::min(limit, held), [&](const PointRing::Entry& e) {
    if (static_cast<size_t>(e.series) >= series.count()) take_names(series);
    series.add(e.series, e.point);
  });
}

// Adds the names of new series. Called when a point of a new series arrives, which may happen at any time.
void RunWriter::take_names(SeriesWriter& series) {
  const std::lock_guard lock(mutex_);
  while (series.count() < names_.size()) {
    const SeriesName& next = names_[series.count()];
    series.add_series(next.name, next.larger_is_better);
  }
}

template <class Write>
auto RunWriter::counting_failures(Write write) {
  try {
    return write();
  } catch (...) {
    failures_.fetch_add(1);
    throw;
  }
}

void RunWriter::commit(size_t limit, bool durable) {
  const int64_t dropped = dropped_.load();
  counting_failures([&] { committer_.begin(); });
  take_points(limit);
  const int64_t points = committer_.series().pending();
  if (!counting_failures([&] { return committer_.commit(dropped, durable); })) return;
  committed_.fetch_add(points);
  if (std::exchange(failing_, false)) warnings_.add(fmt::format("the store {} is writable again", path_));
  committer_.checkpoint();
}

void RunWriter::try_to_commit(size_t limit) {
  last_try_ = Clock::now();
  try {
    commit(limit, /*durable=*/false);
  } catch (const std::exception& error) {
    if (!std::exchange(failing_, true)) {
      warnings_.add(fmt::format("{}; metrics are kept in memory until the store is writable again", error.what()));
    }
  }
}

StateInfo RunWriter::save(StateSnapshot snapshot, const Retention& retention) {
  try {
    commit(kAll, /*durable=*/false);
    StateInfo state = counting_failures([&] { return committer_.save(snapshot); });
    give_back(std::move(snapshot));
    if (unsaved_ > 1)
      warnings_.add(fmt::format("failed to save {} states in a row before the state of step {}", unsaved_, state.step));
    unsaved_ = 0;
    try {
      counting_failures([&] { committer_.prune(retention); });
    } catch (const std::exception& error) {
      warnings_.add(fmt::format("failed to remove old states: {}", error.what()));
    }
    committer_.checkpoint();
    return state;
  } catch (const std::exception& error) {
    if (++unsaved_ == 1)
      warnings_.add(fmt::format("failed to save the state of step {}: {}", snapshot.header.step, error.what()));
    give_back(std::move(snapshot));
    throw;
  }
}

void RunWriter::give_back(StateSnapshot snapshot) {
  {
    const std::lock_guard lock(mutex_);
    spare_ = std::move(snapshot);
    saving_ = false;
  }
  saved_.notify_all();
}

ArtifactInfo RunWriter::save(const ArtifactHeader& header, const ArtifactSource& source) {
  try {
    commit(kAll, /*durable=*/false);
    ArtifactInfo artifact = counting_failures([&] { return committer_.save(header, source); });
    committer_.checkpoint();
    return artifact;
  } catch (const std::exception& error) {
    warnings_.add(fmt::format("failed to save the artifact {}: {}", header.name, error.what()));
    throw;
  }
}

namespace {

// Calls `write`. If it fails, checkpoints the log, which is then overwritten from its start, and calls `write` again.
// On a full disk this may free enough space.
template <class Write>
void write_with_retry(RunCommitter& committer, const Write& write) {
  try {
    write();
  } catch (const Error&) {
    committer.fold_log();
    write();
  }
}

}  // namespace

void RunWriter::flush() {
  submit([this](RunCommitter& committer) {
    write_with_retry(committer, [&] { commit(kAll, /*durable=*/true); });
  }).get();
}

void RunWriter::finish(const RunEnd& end) {
  submit([this, &end](RunCommitter& committer) {
    write_with_retry(committer, [&] {
      commit(kAll, /*durable=*/false);
      committer.finish(end);
    });
  }).get();
}

void RunWriter::give_up(const RunEnd& end) {
  const int64_t dropped = counters().dropped;
  submit([&end, dropped](RunCommitter& committer) { committer.give_up(end, dropped); }).get();
}

}  // namespace runner::store
