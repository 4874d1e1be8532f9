// One rank of a run: its preparation, what it continues from, its training, its end.
//
// A run of P ranks has one object per rank. Only rank 0 records. All ranks reach the same collectives. Not thread-safe;
// interrupt a run with RunRequest::stop.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/runtime/affinity.h"
#include "runner/train/loop/hooks.h"
#include "runner/train/loop/session.h"
#include "runner/train/loop/train_state.h"
#include "runner/train/run/checkpoint/restore.h"
#include "runner/train/run/compile_watch.h"
#include "runner/train/run/device_record.h"
#include "runner/train/run/profiler.h"
#include "runner/train/run/run.h"
#include "runner/train/run/run_callbacks.h"
#include "runner/train/run/run_record.h"

namespace runner::train {

class RankRun {
 public:
  // `ranks`: process group, or null for a single process. Only rank 0 records.
  explicit RankRun(const RunRequest& request, backends::ProcessGroup* ranks = nullptr);

  // Runs as the recording rank. Throws errors of the recipe, the data and the store. Once the run has begun, errors are
  // recorded and returned in the result.
  RunResult execute();

  // Runs as another rank. Throws its errors.
  void follow();

  // Number of finished optimizer steps.
  int64_t step() const { return state_.step(); }

 private:
  // ---- preparation --------------------------------------------------------------------------------------------------

  // Checks that the steps fit, allocates the arrays and compiles the first step.
  void prepare();
  // Throws if the run is stopped during its preparation.
  void check_not_stopped() const;
  void end_preparation();
  // Throws on all ranks if the data of two ranks differ. Collective.
  void check_data_of_hosts();
  // Applies train.auto_batch_size in a new run.
  void fit();

  // ---- what the run continues from ----------------------------------------------------------------------------------

  void fork(store::Store store, const ForkRequest& request);
  void resume(store::Store store);
  void begin_again(store::Store store, const store::RunRow& row);
  // Applies the host part of a restored checkpoint. `resumed`: it is of this run, not of a parent.
  void continue_from(const Checkpoint& checkpoint, bool resumed);

  // ---- training -----------------------------------------------------------------------------------------------------

  void warn_at_start();
  void warn_of_fit();
  void send_beginning_to_ranks();
  void train();

  // ---- the end ------------------------------------------------------------------------------------------------------

  // Ends the run after an error. If it was interrupted in a hook or an evaluation, here or on another rank, saves the
  // state at the end of the optimizer step and counts as interrupted; a resumed run repeats the hook or evaluation.
  // Rank 0 has everything to save, so no synchronisation is needed.
  void end_with(const Error& error);
  Error returned_early() const;
  // Whether all ranks have stopped at the same point, so that they reach the end together.
  bool all_ranks_stopped(const Error& error) const;
  // Barrier: no rank exits before the others have finished their collectives.
  void wait_for_other_ranks() const;
  void finish();
  // Warns if a hook's training loop ended early or never stepped an optimizer.
  void warn_of_no_update();
  void warn_of_left_out_batches();
  void warn_of_little_training();
  void predict_memory();

  const RunRequest& request_;
  const schema::Recipe& recipe_;
  const std::unique_ptr<Hooks> hooks_;
  const std::vector<std::vector<int>> cores_;  // by rank; empty: not pinned
  const backends::PinnedThread pinned_;        // before anything starts threads
  std::optional<Profiler> profiler_;           // before anything records spans
  std::optional<CompileWatch> compile_watch_;  // likewise
  std::optional<PersistentGraphs> graphs_;     // tpu.persistent_cache; before the device, which refers to it
  Session session_;
  RunRecord record_;
  TrainState state_;
  DeviceRecord device_;
  std::optional<HookCallback> hook_callback_;  // none: there is no hook
  std::optional<RunCallbacks> callbacks_;      // set once the steps have been checked
  std::optional<std::string> other_batch_;     // to warn about when the run is resumed
  std::optional<Checkpoint> restored_;         // for the other ranks
  bool resumed_ = false;                       // restored_ is of this run itself
};

}  // namespace runner::train
