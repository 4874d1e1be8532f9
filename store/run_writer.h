// Records one run from a thread of its own: metrics, events, states, sign of life, end.
//
// The training thread hands points over through a preallocated ring and never waits or allocates for that.  The writer
// thread commits them every `flush_every`.  Invariants: (1) what was pushed before a state, a flush()
// or finish() is committed with or before it; (2) a failed write is kept and repeated, reported through
// take_warnings(), and never ends the run; (3) points in memory are bounded: when the store cannot be written for long
// the newest points are dropped, and counted.
// Thread safety: all belongs to one thread, the training thread, except counters(), take_warnings(), provenance() and
// wait_until_recorded(), which any thread may call.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <variant>
#include <vector>

#include <semaphore.h>

#include "store/outcome.h"
#include "store/point_ring.h"
#include "store/run_recording.h"
#include "store/warning_list.h"

namespace runner::store {

struct WriterCounters {
  int64_t pushed = 0;     // points accepted
  int64_t committed = 0;  // of them in the file
  int64_t dropped = 0;    // points refused by a full ring
  int64_t commits = 0;
  int64_t failures = 0;  // writes that failed; all but those of states are kept for another try
};

using SeriesIndex = int32_t;

class RunWriter {
 public:
  // Starts a new run in a store opened for writing; returns at once, the writer thread records the run.
  RunWriter(Store store, RunInfo info, WriterOptions options = {});
  // Continues a run that begin_attempt() has claimed.
  RunWriter(Store store, RunHandle run, WriterOptions options = {});
  // Commits what it can, without a status: a run that was not finished counts as crashed.  Never throws.
  ~RunWriter();
  RunWriter(const RunWriter&) = delete;
  RunWriter& operator=(const RunWriter&) = delete;

  const std::string& uid() const { return uid_; }

  // Blocks until the run is in the store and returns its ids.  Throws the Error that kept it out.
  RunHandle wait_until_recorded();

  // The handle of a metric name; the same for the same name.  Allocates for a new name only.
  SeriesIndex series(std::string_view name);

  // Records a point, stamped with the time now (to about 4 ms).  Steps of a series should not decrease.  No lock, no
  // allocation; no system call, but that a burst which half fills the ring wakes the writer thread.  Returns false if
  // the ring was full and the point was dropped and counted.
  bool push(SeriesIndex series, int64_t step, double value) noexcept;

  // Records an event; `json` is a JSON document.  A short lock and an allocation.
  void event(Level level, std::string kind, std::string json);

  // Records what the attempt runs on, in place of what was recorded of that before; any thread may call it.
  void provenance(Provenance provenance);

  // Records what a device has compiled and counted so far, in place of what was recorded of that before.
  void device_account(DeviceAccount account);

  // Keeps what a device has compiled, for later runs.
  void compiled_graphs(CompiledGraphs graphs);

  // A cleared snapshot to fill: a used one with its memory where there is one.
  StateSnapshot snapshot();

  // Saves on the writer thread, then applies `retention`.  The outcome is the state, or the Error; a failure is also a
  // warning.  Waits for an earlier save that is still under way, so that at most one snapshot is held.  For the last
  // state call .get() on it.
  Outcome<StateInfo> save_state(StateSnapshot snapshot, Retention retention = {});

  // Saves an artifact on the writer thread, after all that was given before it; a file must stay as it is until the
  // outcome is there.  The outcome is the artifact, or the Error; a failure is also a warning.  Waits for an earlier
  // artifact that is still under way, so that the bytes of at most one are held.
  Outcome<ArtifactInfo> save_artifact(ArtifactHeader header, ArtifactSource source);

  // Blocks until everything given so far is in the file and synced.  Throws Error(kStore) if it cannot be.
  void flush();

  // As flush(), and records the end.  Nothing may be given afterwards.  Throws Error(kStore); it may be called again
  // then.
  void finish(const RunEnd& end);

  // When finish() has thrown: records the end alone, for which every commit has left room, and gives up what could not
  // be written; points of that count as dropped.  Throws Error(kStore).
  void give_up(const RunEnd& end);

  WriterCounters counters() const;

  // Texts about failed writes and recoveries since the last call; empty (and cheap) nearly always.  Dropped points are
  // counted (counters()), not warned about.
  std::vector<std::string> take_warnings();

 private:
  RunWriter(Store store, std::variant<RunInfo, RunHandle> run, WriterOptions options);

  // Does `work(recording)` on the writer thread.
  template <class Result = std::monostate, class Work>
  Outcome<Result> submit(Work work);

  using Task = std::function<void(RunRecording&)>;

  // The writer thread, and what it and its tasks call.
  void work();
  bool rest();
  std::chrono::milliseconds next_nap();
  void take_points(size_t limit);
  void take_names(SeriesWriter& series);
  void commit(size_t limit, bool durable);
  void try_to_commit(size_t limit);
  StateInfo save(StateSnapshot snapshot, const Retention& retention);
  void give_back(StateSnapshot snapshot);
  ArtifactInfo save(const ArtifactHeader& header, const ArtifactSource& source);
  template <class Write>
  auto counting_failures(Write write);

  // From either side.
  void wake() noexcept { ::sem_post(&wake_); }

  const std::string uid_;
  const std::string path_;
  const WriterOptions options_;

  // The training thread's own.
  std::map<std::string, SeriesIndex, std::less<>> series_;
  std::optional<Outcome<ArtifactInfo>> artifact_;  // the newest

  // Between the threads.
  PointRing ring_;
  WarningList warnings_;
  std::atomic<int64_t> committed_{0}, dropped_{0}, commits_{0}, failures_{0};
  sem_t wake_{};  // counts calls to the writer thread; a condition variable's would need a lock to be heard for sure
  std::mutex mutex_;  // guards the rest of this block
  std::condition_variable saved_;
  std::vector<Task> tasks_;
  std::vector<std::string> names_;  // of the series, by index
  StateSnapshot spare_;
  bool stopping_ = false, saving_ = false;

  // The writer thread's own.
  RunRecording recording_;
  bool failing_ = false;
  int64_t unsaved_ = 0;  // states in a row
  int64_t pushed_at_last_nap_ = 0;
  std::chrono::steady_clock::time_point last_nap_ = std::chrono::steady_clock::now(), last_try_ = last_nap_;

  std::thread thread_;
};

}  // namespace runner::store
