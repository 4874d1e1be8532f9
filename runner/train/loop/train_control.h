// Requests of signals, hooks and callbacks to a run, and the flags that all ranks agreed on.
//
// A request on one rank takes effect on all, when ranks synchronise after an optimizer step. To end a run, callers ask
// TrainState::interrupted(), which means all ranks; asked_to_stop() and must_end() are for waiting, where a rank is
// alone. Belongs to the training thread; only the signal may come from another one.
#pragma once

#include <atomic>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "backends/dist/process_group.h"
#include "runner/train/loop/hooks.h"
#include "runner/train/loop/session.h"

namespace runner::train {

// What ranks tell each other between optimizer steps: requests to stop or to save, and digests of their calls.
struct ControlFlags {
  bool interrupted = false;  // by a signal
  bool stop = false;         // by a hook: end the run after this optimizer step
  bool save = false;         // by a hook: save a checkpoint
  int64_t drawn = 0;         // number of draws by the hook
  int64_t accumulation = 1;  // batches of the following optimizer steps
  uint64_t call_digest = 0;  // hash of rates, clipping, losses, updates
};

// Returns the combined flags of all ranks. Collective. A rank without a batch has drawn fewer numbers; all ranks
// continue with the largest count. Throws Error(kRun) if call_digest or accumulation differ.
ControlFlags sync_flags(const ControlFlags& mine, backends::ProcessGroup& ranks, int64_t step);

class TrainControl {
 public:
  // `hooks`: null if there is no hook. `stop`: above 0 if this rank is asked to stop from outside. All must outlive the
  // object.
  TrainControl(const Session& session, Hooks* hooks, const std::atomic<int>& stop);

  // ---- the end of a run --------------------------------------------------------------------------------------------

  // Whether this rank was asked to stop from outside.
  bool asked_to_stop() const { return stop_.load(std::memory_order_relaxed) > 0; }
  // Whether this rank was asked to stop, or another rank has ended the run.
  bool must_end() const;
  // Whether all ranks know that one was asked to stop. Not used in a single process.
  bool agreed_to_stop() const { return agreed_to_stop_; }
  // Agrees to stop if any rank was asked to. Collective. Does nothing in a single process.
  void agree_to_stop(const char* where);
  // `stop`: whether any rank was asked to stop, as returned by another collective.
  void agree(bool stop) { agreed_to_stop_ |= stop; }
  // Call in an evaluation before each batch. Returns whether to stop, if a resumed run can repeat the evaluation.
  bool stops_evaluation();
  // A hook's request: takes effect on all ranks after the current optimizer step.
  void request_stop() { (session_.ranks != nullptr ? stop_requested_ : stopped_by_hook_) = true; }
  // A hook's loop ended the run by returning.
  void end_by_hook() { stopped_by_hook_ = true; }
  bool stopped_by_hook() const { return stopped_by_hook_; }

  // ---- checkpoints -------------------------------------------------------------------------------------------------

  // A hook's request: after the current optimizer step or, if there is none, when the last one is closed.
  // `name`: of the checkpoint; empty for none.
  void request_save(bool in_step, const std::string& name = {});
  // Returns the names requested for the next checkpoint at the end of an optimizer step.
  std::vector<std::string> take_state_names();
  bool save_requested() const { return save_requested_; }
  bool take_save_request() { return std::exchange(save_requested_, false); }
  // With a hook's loop, a checkpoint waits until nothing more belongs to the optimizer step. `reason`: null for none.
  void save_when_closed(const char* reason) {
    if (save_reason_ == nullptr) save_reason_ = reason;
  }
  const char* take_save_reason() { return std::exchange(save_reason_, nullptr); }
  // Throws if only some ranks have requested a checkpoint that all must request. Collective.
  void check_saves() const;

  // ---- ranks -------------------------------------------------------------------------------------------------------

  // Synchronises requests, the hook's draws and the accumulation of the next steps. Collective; see sync_flags().
  void sync(int64_t accumulation, uint64_t call_digest);

 private:
  int64_t step() const { return session_.trainer.counters.steps; }

  void share_state_names();

  const Session& session_;
  Hooks* const hooks_;
  const std::atomic<int>& stop_;
  bool agreed_to_stop_ = false;
  bool stop_requested_ = false;        // by this rank's hook
  bool stopped_by_hook_ = false;       // on all ranks
  bool save_requested_ = false;        // after the current optimizer step
  std::set<std::string> state_names_;  // requested by this rank's hook; by all ranks after sync()
  int64_t saves_requested_ = 0;        // by this rank's hook so far
  const char* save_reason_ = nullptr;  // why to save when the last optimizer step is closed; null: not
  int64_t evaluated_batches_ = 0;      // number of calls of stops_evaluation()
};

}  // namespace runner::train
