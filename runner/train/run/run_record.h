// Everything that a run records: its attempt, points, events, artifacts and checkpoints in the store, and the result
// for the caller.
//
// Belongs to the training thread; the threads of RunWriter and ProvenanceKeeper write.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runner/train/loop/hooks.h"
#include "runner/train/loop/session.h"
#include "runner/train/run/checkpoint/saver.h"
#include "runner/train/run/log_files.h"
#include "runner/train/run/metric_recorder.h"
#include "runner/train/run/provenance_keeper.h"
#include "runner/train/run/run.h"
#include "runner/train/run/trace_file.h"
#include "store/provenance.h"
#include "store/queries.h"
#include "store/run_writer.h"

namespace runner::train {

class RunRecord {
 public:
  // All arguments must outlive the object. `hooks`: null if there is no hook.
  RunRecord(const RunRequest& request, const Session& session, const Hooks* hooks);

  // ---- beginning: open_log_files(), then one of the begin functions, before anything else ---------------------------

  // Opens the files of `log` and `profile`. Throws Error(kData) if a file cannot be written.
  void open_log_files();

  void begin(store::Store store);
  void begin_fork(store::Store store, const store::RunRow& parent, const store::StateInfo& from);
  // Records of earlier attempts.
  struct Earlier {
    const store::StateInfo* from = nullptr;          // checkpoint that the session was restored from; null: none
    int64_t recorded_ms = INT64_MAX;                 // later points of its step will be recorded again
    std::vector<store::MetricSummary> metrics = {};  // without points that will be recorded again
    int64_t last_step = 0;                           // last step with a point
  };
  // Begins a further attempt of `run`, from the session's current state.
  void begin_attempt(store::Store store, const store::RunRow& run, const Earlier& earlier);
  // Begins on a rank other than 0, which records nothing.
  void begin_without_store(const std::string& run, const std::string& name,
                           const std::map<std::string, MetricRange>& metrics);
  bool begun() const { return recorder_.has_value(); }
  bool is_recorded_here() const { return writer_.has_value(); }
  // Returns null on a rank that records nothing.
  store::RunWriter* writer() { return writer_ ? &*writer_ : nullptr; }

  // ---- during the run ----

  RunResult result;  // so far
  MetricRecorder& points() { return *recorder_; }
  const MetricRecorder& points() const { return *recorder_; }
  CheckpointSaver& checkpoints() { return *saver_; }

  // Also notifies the observer, unless it has the text already (`is_shown`).
  void warn(const std::string& text, bool is_shown = false);
  void warn_of_all(const std::vector<std::string>& texts);
  void event(store::Level level, std::string kind, std::string json);
  // Call after the first optimizer step. Starts collecting provenance that takes long.
  void first_optimizer_step();
  // Passes on warnings of the writer thread and handles finished saves.
  void collect();
  // Errors of the store become warnings; others are thrown.
  void save_artifact(const std::string& name, std::string_view kind, std::vector<std::byte> bytes);
  // Stores a cycle of `profile` as an artifact and in profile.out. `events`: part of a trace (formats/chrome_trace.h).
  void keep_trace(const std::string& events);
  // Returns the id of a checkpoint (Callback::on_find_state). Throws Error(kRun) if the run has no such checkpoint.
  int64_t find_state(const std::string& selector);
  // Returns a second connection to the store, after everything recorded so far has been written.
  store::Store reopened();

  // ---- the end ----

  // Marks the run as failed.
  void fail_with(const Error& error);
  // Completes the result. Nothing is recorded afterwards.
  void finish();

 private:
  int64_t step() const { return session_.trainer.counters.steps; }
  double seconds() const;  // since RunRequest::started
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
  const Hooks* const hooks_;
  std::optional<LogFiles> logs_;
  std::optional<TraceFile> trace_file_;
  std::optional<store::RunWriter> writer_;
  std::optional<MetricRecorder> recorder_;
  std::optional<CheckpointSaver> saver_;
  int64_t attempt_ = 1, cycles_ = 0;  // number of traces of the attempt
  ProvenanceKeeper provenance_;       // after the writer, to which it passes its results
};

}  // namespace runner::train
