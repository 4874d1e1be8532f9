// What a run leaves behind: its attempt, points, events, artifacts and states in the store, and the result that whoever
// started it gets.
//
// Belongs to the training thread; what is written is written by the threads of RunWriter and ProvenanceKeeper.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runner/train/loop/session.h"
#include "runner/train/record/log_files.h"
#include "runner/train/record/persistent_graphs.h"
#include "runner/train/record/provenance_keeper.h"
#include "runner/train/record/recorder.h"
#include "runner/train/record/trace_file.h"
#include "runner/train/run.h"
#include "runner/train/states/state_keeper.h"
#include "store/queries.h"

namespace runner::train {

class RunRecord {
 public:
  // All must outlive it; `hooks`: null where there is none.
  RunRecord(const RunRequest& request, const Session& session, const Hooks* hooks);

  // ---- beginning: the files of `log` and `profile`, then one of these comes before all else ----

  // Throws Error(kData) where a file cannot be written.
  void open_log_files();

  void begin(store::Store store);
  void begin_fork(store::Store store, const store::RunRow& parent, const store::StateInfo& from);
  // What earlier attempts have left.
  struct Earlier {
    const store::StateInfo* from = nullptr;          // the state that the session stands at; null: at the beginning
    int64_t recorded_ms = INT64_MAX;                 // of its step younger points will be recorded again
    std::vector<store::MetricSummary> metrics = {};  // without what will be recorded again
    int64_t last_step = 0;                           // that they got to
  };
  // A further attempt of `run`, from where the session stands.
  void begin_attempt(store::Store store, const store::RunRow& run, const Earlier& earlier);
  // Nothing is recorded: that is for another process, rank 0, whose run this is.
  void begin_without_store(const std::string& run, const std::string& name,
                           const std::map<std::string, MetricRange>& metrics);
  bool begun() const { return recorder_.has_value(); }
  bool is_recorded_here() const { return writer_.has_value(); }

  // ---- while it is under way ----

  RunResult result;  // so far
  Recorder& points() { return *recorder_; }
  const Recorder& points() const { return *recorder_; }
  StateKeeper& states() { return *keeper_; }

  // Tells the observer, too.
  void warn(const std::string& text);
  void warn_of_all(const std::vector<std::string>& texts);
  void event(store::Level level, std::string kind, std::string json);
  // The first window is done: what takes time to find out may begin.
  void first_window();
  // Passes on what the writer thread warns of, and takes in what has been saved.
  void collect();
  // An error of the store is a warning; any other is thrown.
  void save_artifact(const std::string& name, std::string_view kind, std::vector<std::byte> bytes);
  // What a device keeps account of (null: nothing), in place of what it had before; and what it has compiled for later
  // runs (null: nothing).
  void keep_account(const backends::tpu::TpuDevice* device, PersistentGraphs* graphs);
  // The same of GPUs, as of the result.
  void keep_gpu_account();
  // A cycle of `profile`, as parts of a trace (formats/chrome_trace.h): an artifact, and in profile.out.
  void keep_trace(const std::string& events);
  // The state that the run has (none: any); throws Error(kRun) where it has none.
  void check_state(std::optional<int64_t> state);
  // A second view of the store, with all that has been given to it.
  store::Store reopened();

  // ---- the end ----

  // The run has failed.
  void fail_with(const Error& error);
  // Nothing is recorded behind this; the result is whole.
  void finish();

 private:
  int64_t step() const { return session_.trainer.counters.windows; }
  store::AttemptInfo attempt_info() const;
  store::RunInfo new_run() const;
  template <class RunOf>
  void record(store::Store store, RunOf run, int64_t attempt = 1);
  std::string event_json(const std::string& text) const;
  void pass_on_warnings();
  void list_states();
  store::RunEnd run_end() const;
  void give_up(const Error& error);
  bool is_recorded();

  const RunRequest& request_;
  const Session& session_;
  std::optional<LogFiles> logs_;
  std::optional<TraceFile> trace_file_;
  std::optional<store::RunWriter> writer_;
  std::optional<Recorder> recorder_;
  std::optional<StateKeeper> keeper_;
  int64_t attempt_ = 1, cycles_ = 0;  // kept traces of the attempt
  store::DeviceAccount account_;      // of the attempt, so far
  ProvenanceKeeper provenance_;       // after the writer, which it hands its findings to
};

}  // namespace runner::train
