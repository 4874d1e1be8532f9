// A run as one replica sees it: the beginning, the loop, what is due behind each window, the end.
//
// A run of one process has one; of P replicas each has its own, rank 0's alone records, and all meet at the same
// moments.  Not thread-safe: interruptions come through RunRequest::stop.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/runtime/affinity.h"
#include "runner/train/loop/interval.h"
#include "runner/train/loop/loop_host.h"
#include "runner/train/loop/session.h"
#include "runner/train/loop/window_log.h"
#include "runner/train/record/compile_watch.h"
#include "runner/train/record/profiler.h"
#include "runner/train/record/run_record.h"
#include "runner/train/run.h"
#include "runner/train/states/forking.h"
#include "runner/train/step/hooks.h"

namespace runner::train {

// Of a run of which nothing is recorded.
inline constexpr const char* kInterruptedAtStart = "interrupted before the run began";

class ReplicaRun : private RunControl, private LoopHost {
 public:
  // `ranks`: null, or the replicas, of which this is one and all of which it meets; rank 0 alone records.
  explicit ReplicaRun(const RunRequest& request, backends::Collectives* ranks = nullptr);

  // As the replica that records.  Faults of the recipe, the data and the store are thrown; what fails behind the
  // beginning of the run is in the result, and recorded.
  RunResult execute();

  // As one that does not.  Throws what fails here.
  void follow();

  // Optimizer steps that are done.
  int64_t step() const override { return session_.trainer.counters.windows; }

 private:
  // ---- beginning ----------------------------------------------------------------------------------------------------

  // With tpu.persistent_cache, of the replica that records; null: it is off.
  PersistentGraphs* graphs() { return graphs_ ? &*graphs_ : nullptr; }

  // While the run is prepared.
  void check_not_stopped() const;
  void end_preparation();

  // With train.auto_batch_size, in a run that begins.
  void fit();
  void tell_of_fit();
  void fork(store::Store store, const ForkRequest& request);
  void resume(store::Store store);
  void begin_again(store::Store store, const store::RunRow& row);

  // What restoring a state leaves to the loop.
  void go_on_from(const RunState& state, bool resumed);

  // ---- the loop -----------------------------------------------------------------------------------------------------

  bool finished() const override { return step() >= session_.scale.total_steps || stops(); }
  bool stops() const { return log_->stopped_early() || stopped_by_hook_; }
  bool asked_to_stop() const override { return request_.stop.load(std::memory_order_relaxed) > 0; }
  bool must_end() const override { return asked_to_stop() || (session_.rank() != 0 && session_.ranks->has_failed()); }
  bool interrupted() const override { return session_.ranks != nullptr ? agreed_to_stop_ && whole_ : asked_to_stop(); }

  // What one replica is asked for, all do, behind the same window.  Without hooks that is to stop, which they tell each
  // other where they add gradients up.
  void agree(uint64_t decisions = 0);

  // Where all must ask for a state, or none.
  void check_saves() const;

  // Replicas with weights of their own (train.local_sgd) are one model again where they average them, and nothing is
  // agreed on, saved or evaluated elsewhere.
  void average(bool due);

  // Throws Error(kRun) where the replicas have other weights.
  void check_weights();

  // What a hook has asked for holds from the next window on.
  void adopt_accumulation();

  // From the next batch on.
  data::LoaderSpec loader_spec() override;
  void train();
  WindowStart begin_window() override;
  WindowStart here() override;
  HookMark mark();

  // A moment like the end of a window, but for the update.
  void inside_window(const TrainingWindow& window) override;
  void end_window(const TrainingWindow& window) override;
  bool may_end_before_device(const TrainingWindow& window, const WindowStart& start) override;

  // What evaluations and hooks do behind a window, and the state that is due then.
  void finish_window(WindowEnd end, bool logged);
  // Empty: there is none.
  void keep_trace(const std::string& events);
  // What a GPU's predicted clock has counted since the last call was this.
  void count_predicted(backends::gpu::PredictedTime GpuDeviceUse::*phase);
  // What the devices have counted goes into the account of the attempt; `ranks`: those of all, who call it together.
  void keep_gpu_account(backends::Collectives* ranks);
  void warn_of_unused();
  void pass_on_warnings();  // of the device, also where what they are about has ended the run
  void record_batches(uint64_t digest);

  void evaluate();
  // Asked before each batch of one that can be done again.
  bool stops_evaluation();

  // A phase may have taken this much, and `copies` (bytes) beside it.
  void measure(int64_t PeakMemory::*phase, int64_t copies = 0);
  bool tracked() const { return has(hooks_.get(), HookEntry::kTrackers) && session_.rank() == 0; }
  void track();

  // ---- states -------------------------------------------------------------------------------------------------------

  // Null: none.  The last state of a run is saved by train().
  const char* reason_to_save();
  RunState state();
  void save(const char* reason);
  void save(const char* reason, const RunState& state);

  // From here on hooks may fail, and evaluations may be interrupted: a window of the recipe's loop is whole all the
  // same.
  void keep_unfinished(const WindowEnd& end);

  // Whether what was kept so is saved now.
  bool save_unfinished();

  // Whether checkpoint.keep_every pins the state behind the newest window.
  bool stays() const;

  // ---- what is not finite -------------------------------------------------------------------------------------------

  void not_finite(const NotFinite& found, const WindowStart& start, bool untouched) override;
  RunState state_before(const WindowStart& start);

  // ---- what fails ---------------------------------------------------------------------------------------------------

  void keep_before(const WindowStart& start) override;

  // ---- what a loop asks for -----------------------------------------------------------------------------------------

  data::Position position() const override { return position_; }
  void set_position(const data::Position& position) override;
  const TrainingWindow& window() const override { return window_; }
  void warn(const std::string& text) override { record_.warn(text); }
  void point(const std::string& name, double value) override { points_[name] = value; }
  void save_soon(bool in_window) override;
  // What the hook does behind a window, at the end of an epoch, belongs to it: a state holds that as well.  It waits
  // for an average where there are such.
  void settle() override;
  void check_state(std::optional<int64_t> state) override;
  void load(std::optional<int64_t> state) override;

  // ---- what hooks of events do --------------------------------------------------------------------------------------

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

  // A hook that was told to hurry, or an evaluation, did not come to its end, here or in another replica: resuming does
  // that again.  What is saved is all in this one, so that the others need not agree.
  void end_with(const Error& error);
  // Whether all replicas have stopped at the same moment, and come to the end.
  bool is_of_all(const Error& error) const;
  // Nobody goes before the others have done what they do together.
  void meet_at_the_end() const;

  // Trackers hear of a failure as well, and a failure of theirs is one of the run.
  void end_tracking();

  void finish();

  // A loop of a hook's decides what it does; that it left out what one expects of it is worth a word.
  void tell_of_little_training(RunResult& result);

  // A hook that keeps more than so many bytes in states is asked for them where an epoch begins, not before each
  // window.
  static constexpr size_t kMostHookState = 1024;

  const RunRequest& request_;
  const schema::Recipe& recipe_;
  const std::unique_ptr<Hooks> hooks_;
  bool records_batches_;
  const std::vector<std::vector<int>> cores_;  // by rank; none: they run where they like
  const backends::PinnedThread pinned_;        // before what starts threads
  std::optional<Profiler> profiler_;           // before what is worth a span
  std::optional<CompileWatch> compile_watch_;  // likewise
  std::optional<PersistentGraphs> graphs_;     // before the device, which refers to it
  Session session_;
  const Interval save_every_, average_every_, check_every_;
  RunRecord record_;
  std::optional<WindowLog> log_;  // always there, once the steps are known to be good

  int64_t next_accumulation_ = recipe_.gradient_accumulation_steps;  // batches of a window behind the one under way
  data::Position position_;                                          // of the next batch
  TrainingWindow window_;                     // of the recipe's loop, under way; without batches: none
  Reached reached_;                           // at the end of the newest window
  Reached saved_until_;                       // where the newest state could have been, inside a window, too
  std::optional<std::string> other_batches_;  // to warn of, when the run is resumed
  std::optional<RunState> restored_;          // for the other replicas
  std::optional<RunState> unfinished_;        // at the end of the newest window, while hooks may fail there
  bool whole_ = true;                         // the replicas hold the same weights
  bool resumed_ = false;                      // restored_ is of this run itself
  bool stopped_by_hook_ = false;
  bool stop_wanted_ = false;     // by this replica's hook
  bool agreed_to_stop_ = false;  // all replicas have heard of an interruption
  bool save_wanted_ = false;     // by the hook
  int64_t saves_asked_ = 0;      // by this replica's hook
  bool warned_of_unused_ = false;
  bool hook_keeps_much_ = false;
  bool has_begun_ = false;                // the first window
  int64_t evaluated_batches_ = 0;         // that stops_evaluation() was asked about
  bool save_due_ = false;                 // behind the newest window
  const char* due_state_ = nullptr;       // in a hook's loop: why a state is to be saved before the next window
  std::map<std::string, double> points_;  // in a hook's loop: for the end of the window
  data::InputUse input_use_;              // counted by the loaders of training
  GpuDeviceUse gpu_use_;                  // so far, of predicted time
  std::optional<int64_t> first_step_;     // of the attempt; none: training has not begun
};

}  // namespace runner::train
