// One rank of a run: its beginning, its training loop, what follows each optimizer step, its end.
//
// A run of P ranks has one object per rank. Only rank 0 records. All ranks reach the same collectives. Not thread-safe;
// interrupt a run with RunRequest::stop.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/runtime/affinity.h"
#include "runner/train/engine/hooks.h"
#include "runner/train/loop/interval.h"
#include "runner/train/loop/loop_host.h"
#include "runner/train/loop/session.h"
#include "runner/train/run/compile_watch.h"
#include "runner/train/run/forking.h"
#include "runner/train/run/profiler.h"
#include "runner/train/run/run.h"
#include "runner/train/run/run_record.h"
#include "runner/train/run/window_log.h"

namespace runner::train {

// Error of a run that was interrupted before anything was recorded.
inline constexpr const char* kInterruptedAtStart = "interrupted before the run began";

class ReplicaRun : private RunControl, private LoopHost {
 public:
  // `ranks`: process group, or null for a single process. Only rank 0 records.
  explicit ReplicaRun(const RunRequest& request, backends::Collectives* ranks = nullptr);

  // Runs as the recording rank. Throws errors of the recipe, the data and the store. Once the run has begun, errors are
  // recorded and returned in the result.
  RunResult execute();

  // Runs as another rank. Throws its errors.
  void follow();

  // Number of finished optimizer steps.
  int64_t step() const override { return session_.trainer.counters.windows; }

 private:
  // ---- beginning ----------------------------------------------------------------------------------------------------

  // Cache of tpu.persistent_cache on the recording rank; null if it is off.
  PersistentGraphs* graphs() { return graphs_ ? &*graphs_ : nullptr; }

  // Throws if the run is stopped during its preparation.
  void check_not_stopped() const;
  void end_preparation();

  // Applies train.auto_batch_size in a new run.
  void fit();
  void tell_of_fit();
  void fork(store::Store store, const ForkRequest& request);
  void resume(store::Store store);
  void begin_again(store::Store store, const store::RunRow& row);

  // Applies the parts of a restored checkpoint that the loop needs.
  void go_on_from(const RunState& state, bool resumed);

  // ---- the loop -----------------------------------------------------------------------------------------------------

  bool finished() const override { return step() >= session_.scale.total_steps || stops(); }
  bool stops() const { return log_->stopped_early() || stopped_by_hook_; }
  bool asked_to_stop() const override { return request_.stop.load(std::memory_order_relaxed) > 0; }
  bool must_end() const override { return asked_to_stop() || (session_.rank() != 0 && session_.ranks->has_failed()); }
  bool interrupted() const override { return session_.ranks != nullptr ? agreed_to_stop_ && whole_ : asked_to_stop(); }

  // Synchronises control flags across ranks after an optimizer step: a request on one rank takes effect on all. Without
  // hooks there are only requests to stop, which ranks share when they add up gradients.
  void agree(uint64_t decisions = 0);

  // Throws if only some ranks request a checkpoint that all must request.
  void check_saves() const;

  // With train.local_sgd: averages the weights of the ranks if `due`. Only then may flags be synchronised, and may the
  // run save or evaluate.
  void average(bool due);

  // Throws Error(kRun) if weights differ between ranks.
  void check_weights();

  // Applies a hook's change of the accumulation, from the next optimizer step on.
  void adopt_accumulation();

  // For a loader that starts at the next batch.
  data::LoaderSpec loader_spec() override;
  void train();
  WindowStart begin_window() override;
  WindowStart here() override;
  HookMark mark();

  // Like the end of an optimizer step, but without an update.
  void inside_window(const TrainingWindow& window) override;
  void end_window(const TrainingWindow& window) override;
  bool may_end_before_device(const TrainingWindow& window, const WindowStart& start) override;

  // Runs evaluations and hooks after an optimizer step, and saves a due checkpoint.
  void finish_window(WindowEnd end, bool logged);
  // Stores the events of a profiler cycle. `events`: empty if there are none.
  void keep_trace(const std::string& events);
  // Adds the predicted GPU time since the last call to a phase.
  void count_predicted(backends::gpu::PredictedTime GpuDeviceUse::*phase);
  // Adds the counts of the GPU model to the attempt's record. `ranks`: gathers those of all ranks (collective), or
  // null.
  void keep_gpu_account(backends::Collectives* ranks);
  void warn_of_unused();
  void pass_on_warnings();  // of the device, even if the run ends because of what they report
  void record_batches(uint64_t digest);

  void evaluate();
  // Called before each batch of an evaluation. Returns whether to stop, if a resumed run can repeat the evaluation.
  bool stops_evaluation();

  // Updates the peak memory of a phase. `copies`: additional bytes.
  void measure(int64_t PeakMemory::*phase, int64_t copies = 0);
  bool tracked() const { return has(hooks_.get(), HookEntry::kTrackers) && session_.rank() == 0; }
  void track();

  // ---- checkpoints --------------------------------------------------------------------------------------------------

  // Returns the reason to save a checkpoint now, or null. train() saves the last checkpoint of a run.
  const char* reason_to_save();
  RunState state();
  void save(const char* reason);
  void save(const char* reason, const RunState& state);

  // Keeps the state of the run at the end of an optimizer step of the declared loop, since hooks may fail and
  // evaluations may be interrupted from here on.
  void keep_unfinished(const WindowEnd& end);

  // Saves that state as a checkpoint. Returns whether it did.
  bool save_unfinished();

  // Whether checkpoint.keep_every pins the checkpoint of the last optimizer step.
  bool stays() const;

  // ---- steps that are not finite ------------------------------------------------------------------------------------

  void not_finite(const NotFinite& found, const WindowStart& start, bool untouched) override;
  RunState state_before(const WindowStart& start);

  // ---- failures -----------------------------------------------------------------------------------------------------

  void keep_before(const WindowStart& start) override;

  // ---- requests of a loop -------------------------------------------------------------------------------------------

  data::Position position() const override { return position_; }
  void set_position(const data::Position& position) override;
  const TrainingWindow& window() const override { return window_; }
  void warn(const std::string& text) override { record_.warn(text); }
  void point(const std::string& name, double value) override { points_[name] = value; }
  void save_soon(bool in_window) override;
  // Saves a due checkpoint. It includes what the hook did after the optimizer step, at the end of the epoch. With
  // train.local_sgd it waits for an average.
  void settle() override;
  void check_state(std::optional<int64_t> state) override;
  void load(std::optional<int64_t> state) override;

  // ---- requests of event hooks --------------------------------------------------------------------------------------

  void on(HookEvent event);
  std::string_view run() const override { return record_.result.run; }
  std::string_view name() const override { return record_.result.name; }
  int64_t epoch() const override { return position_.epoch; }
  int64_t steps() const override { return session_.scale.total_steps; }
  int64_t accumulation() const override { return next_accumulation_; }
  void set_accumulation(int64_t batches) override { next_accumulation_ = batches; }
  void save() override { save_soon(/*in_window=*/true); }
  void stop() override { (session_.ranks != nullptr ? stop_wanted_ : stopped_by_hook_) = true; }
  void print(std::string_view text) override { request_.observer.on_print(text); }
  backends::Collectives* replicas() const override { return session_.ranks; }
  void save_artifact(const std::string& name, std::string_view kind, std::vector<std::byte> bytes) override;
  void save_model(const std::string& name, int64_t max_shard_size) override;
  std::optional<double> metric(const std::string& name) const override;
  void log(const std::string& name, double value) override { record_.points().add(name, step(), value); }

  Observer::Progress progress() const;

  // ---- the end ------------------------------------------------------------------------------------------------------

  // Ends the run after an error. If it was interrupted in a hook or an evaluation, here or on another rank, saves the
  // state at the end of the optimizer step and counts as interrupted; a resumed run repeats the hook or evaluation.
  // Rank 0 has everything to save, so no synchronisation is needed.
  void end_with(const Error& error);
  // Whether all ranks have stopped at the same point, so that they reach the end together.
  bool is_of_all(const Error& error) const;
  // Barrier: no rank exits before the others have finished their collectives.
  void meet_at_the_end() const;

  // Notifies trackers, also of a failure. Their own failure fails the run.
  void end_tracking();

  void finish();

  // Warns if a hook's training loop ended early or never stepped an optimizer.
  void tell_of_little_training(RunResult& result);

  // A hook whose state is larger than this is asked for it only at the beginning of an epoch, not before each optimizer
  // step.
  static constexpr size_t kMostHookState = 1024;

  const RunRequest& request_;
  const schema::Recipe& recipe_;
  const std::unique_ptr<Hooks> hooks_;
  bool records_batches_;
  const std::vector<std::vector<int>> cores_;  // by rank; empty: not pinned
  const backends::PinnedThread pinned_;        // before anything starts threads
  std::optional<Profiler> profiler_;           // before anything records spans
  std::optional<CompileWatch> compile_watch_;  // likewise
  std::optional<PersistentGraphs> graphs_;     // before the device, which refers to it
  Session session_;
  const Interval save_every_, average_every_, check_every_;
  RunRecord record_;
  std::optional<WindowLog> log_;  // set once the steps have been checked

  int64_t next_accumulation_ = recipe_.gradient_accumulation_steps;  // batches per optimizer step after the current one
  data::Position position_;                                          // of the next batch
  TrainingWindow window_;  // of the declared loop, in progress; without batches: none
  Reached reached_;        // at the end of the last optimizer step
  // Last point where a checkpoint could be saved, possibly within an optimizer step.
  Reached saved_until_;
  std::optional<std::string> other_batches_;  // to warn about when the run is resumed
  std::optional<RunState> restored_;          // for the other ranks
  std::optional<RunState> unfinished_;        // at the end of the last optimizer step, while hooks may still fail
  bool whole_ = true;                         // whether the ranks have the same weights
  bool resumed_ = false;                      // restored_ is of this run itself
  bool stopped_by_hook_ = false;
  bool stop_wanted_ = false;     // by this rank's hook
  bool agreed_to_stop_ = false;  // all ranks know of an interruption
  bool save_wanted_ = false;     // by the hook
  int64_t saves_asked_ = 0;      // by this rank's hook
  bool warned_of_unused_ = false;
  bool hook_keeps_much_ = false;
  bool has_begun_ = false;         // the first optimizer step
  int64_t evaluated_batches_ = 0;  // number of calls of stops_evaluation()
  bool save_due_ = false;          // after the last optimizer step
  // With a hook's loop: reason to save a checkpoint before the next optimizer step, or null.
  const char* due_state_ = nullptr;
  std::map<std::string, double> points_;  // with a hook's loop: for the end of the optimizer step
  data::InputUse input_use_;              // counted by the training loaders
  GpuDeviceUse gpu_use_;                  // predicted GPU time so far
  std::optional<int64_t> first_step_;     // of the attempt; none: training has not begun
};

}  // namespace runner::train
