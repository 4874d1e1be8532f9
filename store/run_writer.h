// Records one run from a separate thread: metrics, events, checkpoints, heartbeats and the end.
//
// push() passes points through a preallocated ring; it neither blocks nor allocates. The writer thread commits them
// every `flush_every`. Invariants:
//
// - Points pushed before a checkpoint, a flush() or finish() are committed with it or earlier.
// - A failed write is kept and retried. It is reported by take_warnings() and never ends the run.
// - Memory is bounded. If the store cannot be written for long, the newest points are dropped and counted.
//
// Thread safety: all methods belong to one thread, the training thread. Any thread may call counters(),
// take_warnings(), provenance() and wait_until_recorded().
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
#include "store/run_committer.h"
#include "store/warning_list.h"

namespace runner::store {

struct WriterCounters {
  int64_t pushed = 0;     // points accepted by the ring
  int64_t committed = 0;  // points written to the file
  int64_t dropped = 0;    // points rejected because the ring was full
  int64_t failures = 0;   // failed writes; all except those of checkpoints are retried
};

using SeriesIndex = int32_t;

class RunWriter {
 public:
  // Starts a new run. `store` must be opened for writing. Returns at once; the writer thread records the run.
  RunWriter(Store store, RunInfo info, WriterOptions options = {});
  // Continues a run that begin_attempt() has claimed.
  RunWriter(Store store, RunHandle run, WriterOptions options = {});
  // Commits what it can but records no end: an unfinished run counts as crashed. Never throws.
  ~RunWriter();
  RunWriter(const RunWriter&) = delete;
  RunWriter& operator=(const RunWriter&) = delete;

  const std::string& uid() const { return uid_; }

  // Blocks until the run is in the store and returns its handle. Throws the Error that prevented it.
  RunHandle wait_until_recorded();

  // Returns the index of a metric name. Equal names have equal indices. Allocates only for a new name.
  SeriesIndex series(std::string_view name, std::optional<bool> larger_is_better = std::nullopt);

  // Records a point with the current time (accurate to about 4 ms). Steps of a series should not decrease. Neither
  // locks nor allocates. Makes no system call, except to wake the writer thread when the ring becomes half full.
  // Returns false if the ring was full; the point is then dropped and counted.
  bool push(SeriesIndex series, int64_t step, double value) noexcept;

  // Records an event. `json`: a JSON document. Takes a lock briefly and allocates.
  void event(Level level, std::string kind, std::string json);

  // Records or replaces the provenance of the attempt. Any thread may call it.
  void provenance(Provenance provenance);

  // Records or replaces the device report of the attempt.
  void device_report(DeviceReport report);

  // Adds compiled graphs to the persistent cache.
  void compiled_graphs(CompiledGraphs graphs);

  // Returns an empty snapshot, which reuses the memory of an earlier one if possible.
  StateSnapshot snapshot();

  // Saves a checkpoint on the writer thread and then applies `retention`. The outcome is the checkpoint, or the Error;
  // a failure is also a warning. Blocks while an earlier save is in progress, so that at most one snapshot is held.
  // Call .get() on the outcome of the last checkpoint.
  Outcome<StateInfo> save_state(StateSnapshot snapshot, Retention retention = {});

  // Saves an artifact on the writer thread, after everything submitted earlier. A source file must not change until the
  // outcome is ready. The outcome is the artifact, or the Error; a failure is also a warning. Blocks while an earlier
  // artifact is in progress, so that the bytes of at most one are held.
  Outcome<ArtifactInfo> save_artifact(ArtifactHeader header, ArtifactSource source);

  // Blocks until everything submitted so far is in the file and synced. Throws Error(kStore) if that fails.
  void flush();

  // Flushes and records the end. Submit nothing afterwards. Throws Error(kStore), and may then be called again.
  void finish(const RunEnd& end);

  // Call it if finish() has thrown. Records only the end, for which every commit has reserved log space. Points that
  // could not be written count as dropped. Throws Error(kStore).
  void give_up(const RunEnd& end);

  WriterCounters counters() const;

  // Returns the warnings about failed writes and recoveries since the last call. Cheap if there are none, which is
  // usual. Dropped points are reported by counters() only.
  std::vector<std::string> take_warnings();

 private:
  RunWriter(Store store, std::variant<RunInfo, RunHandle> run, WriterOptions options);

  // Runs `work(recording)` on the writer thread.
  template <class Result = std::monostate, class Work>
  Outcome<Result> submit(Work work);

  using Task = std::function<void(RunCommitter&)>;

  // The writer thread's loop, and the functions that the loop and its tasks call.
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

  // Wakes the writer thread. Any thread may call it.
  void wake() noexcept { ::sem_post(&wake_); }

  const std::string uid_;
  const std::string path_;
  const WriterOptions options_;

  // Used by the training thread only.
  std::map<std::string, SeriesIndex, std::less<>> series_;
  std::optional<Outcome<ArtifactInfo>> artifact_;  // the newest one

  // Shared by both threads.
  PointRing ring_;
  WarningList warnings_;
  std::atomic<int64_t> committed_{0}, dropped_{0}, failures_{0};
  sem_t wake_{};      // wakes the writer thread; unlike a condition variable, it needs no lock to avoid a lost wake-up
  std::mutex mutex_;  // guards the members up to the next blank line
  std::condition_variable saved_;
  std::vector<Task> tasks_;
  struct SeriesName {
    std::string name;
    std::optional<bool> larger_is_better;
  };
  std::vector<SeriesName> names_;  // of the series, by index
  StateSnapshot spare_;
  bool stopping_ = false, saving_ = false;

  // Used by the writer thread only.
  RunCommitter committer_;
  bool failing_ = false;
  int64_t unsaved_ = 0;  // consecutive checkpoints that could not be saved
  int64_t pushed_at_last_nap_ = 0;
  std::chrono::steady_clock::time_point last_nap_ = std::chrono::steady_clock::now(), last_try_ = last_nap_;

  std::thread thread_;
};

}  // namespace runner::store
