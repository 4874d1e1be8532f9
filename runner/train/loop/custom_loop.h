// A training loop that a hook drives: windows, batches and updates happen when the hook asks for them.
//
// What the hook computes is recorded into a Segment, which runs when the next batch is asked for or at another cut; so
// nothing that the hook sees depends on when the device works.  The run around it logs, evaluates and saves at the end
// of each window as it does in a declared loop.  docs/decisions/016-loops-of-hooks.md says why.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runner/data/loader.h"
#include "runner/train/loop/loop_host.h"
#include "runner/train/loop/session.h"
#include "runner/train/step/segment.h"

namespace runner::train {

enum class Split { kTrain, kEval };

class CustomLoop {
 public:
  // All must outlive the loop.
  CustomLoop(Session& session, Hooks& hooks, LoopHost& host);

  // Calls the hook's `train`, up to its end or to the end of the run.
  void run();

  // ---- for the hook ------------------------------------------------------------------------------------------------
  // Tensors belong to the segment under way; calls that end it say so, and Hooks::record() tells the hook of the next.

  // The epochs [first, end) that the next loop over epochs goes through: `count` behind those of the loops before it,
  // or all that the recipe has left.
  struct Epochs {
    int64_t first = 0, end = 0;
  };
  Epochs begin_epochs(std::optional<int64_t> count);
  // The next epoch, from 0; none: the loop is over.  Ends the segment.
  std::optional<int64_t> next_epoch(const Epochs& epochs);
  // The loop is left, perhaps before its end.
  void end_epochs();

  // A loop over the batches that are left of the epoch under way, or over the evaluation data.  Both end the segment; a
  // batch is a number that is never used again, none: the loop is over.
  void begin_batches(Split split);
  // Whether shares of the last step are completed in batches that are asked for while it lives, as data.even_batches
  // says for training; all replicas say the same.
  class Evening {
   public:
    Evening(CustomLoop& loop, bool even) : loop_(loop), before_(loop.set_evening(even)) {}
    ~Evening() { loop_.set_evening(before_); }
    Evening(const Evening&) = delete;
    Evening& operator=(const Evening&) = delete;

   private:
    CustomLoop& loop_;
    const std::optional<bool> before_;
  };
  std::optional<int64_t> next_batch(Split split);
  // The segment under way, on that batch.  Throws Error(kRun) where the batch is over.
  const StepInputs& inputs(int64_t batch);
  // The segment under way.
  const StepInputs& inputs() { return segment().inputs(); }

  // Whether the optimizers step at this batch, the last of its window.
  bool sync_gradients() const;
  void backward(Value loss);
  Value clip_grad_norm(std::optional<int32_t> optimizer, double limit);  // unset where none step
  void clip_grad_value(std::optional<int32_t> optimizer, double limit);
  const std::vector<std::string>& optimizers() const { return trainer_.optimizers().names; }
  void step(int32_t optimizer);
  void zero_grad(int32_t optimizer);
  // Under the schedule.  Both may read a value, where the newest update may be skipped and has not run yet.
  double rate(int32_t optimizer);
  bool step_was_skipped();  // the newest
  void step_schedule();     // moves it on, unless that was

  // Whether a training batch is under way; then points belong to the end of its window.
  bool in_window() const { return train_.batch != nullptr; }
  void log(const std::string& name, Value value);
  void log(const std::string& name, double value);
  // So far: since the process started, Programs run, and those of them that had to be compiled.
  struct Cost {
    double seconds = 0;
    int64_t runs = 0, compiled = 0;
  };
  Cost cost() const;
  // Of the batch under way: its samples come first, behind them stand repeats that count for nothing.  None: no batch.
  struct Rows {
    int64_t all = 0, samples = 0;
  };
  std::optional<Rows> rows() const;
  // A tensor of the segment under way with these contents, and what one holds, computed now.
  Value give(HostTensor tensor) { return segment().give(std::move(tensor)); }
  HostTensor read(Value value);
  // Replicas are about to meet outside the segment: what they do together in it, this one does now.
  void catch_up();
  void mark_step();                         // ends the segment
  void save();                              // at the end of the window
  void load(std::optional<int64_t> state);  // drops the segment

 private:
  // A loop over batches.
  struct Batches {
    std::optional<data::Loader> loader;
    std::optional<bool> evening;         // that it was made with
    const data::Batch* batch = nullptr;  // that the hook works on; null: none
    int64_t number = 0;                  // of that batch
    int64_t left = 0;                    // behind it, of the evaluation data
  };
  // The window under way.
  struct Window {
    std::optional<WindowStart> start;  // none: there is no batch
    TrainingWindow seen;               // in the batches that are over
    bool losses = false;               // some are in no point yet
    bool untouched = true;             // nothing has been updated
    bool overflowed = false;           // the loss scaler has left a step out
    std::optional<double> rate;        // of the newest step
    std::optional<NotFinite> found;    // on this replica
    int64_t samples = 0;               // of all its batches, those to come as well
  };
  // What has happened to the training batch under way.
  struct Touched {
    bool counted = false;       // in train/loss
    std::vector<bool> stepped;  // by optimizer
  };
  // Where the loops over epochs stand.
  struct EpochCount {
    int64_t before = 0;              // those of the loops so far
    bool under_way = false;          // a loop over epochs
    std::optional<int64_t> given;    // that the loop under way has given
    std::optional<int64_t> batches;  // that the loop over batches goes through
  };

  const data::Batch* batch() const { return current().batch; }
  const Batches& current() const { return eval_.batch != nullptr ? eval_ : train_; }
  Segment& segment();
  template <class Work>
  auto compute(const Work& work);
  void begin_segment();
  void count_reading();
  void end_segment(bool run = true);
  void run_segment();
  bool take_steps();
  void decide(std::initializer_list<uint64_t> words);
  void note_not_finite();
  void void_window();
  void end_batch();
  std::optional<bool> set_evening(std::optional<bool> even);
  data::DataPlan evened(const data::DataPlan& plan) const;
  void load_training();
  std::optional<int64_t> next_train_batch();
  std::optional<int64_t> next_eval_batch();
  void close_evaluation();
  void leave_evaluation();
  void drop_window();
  std::vector<bool> held_parameters() const;
  data::Position place() const;
  int64_t epochs_of_run() const;
  void leave_epoch();
  void skip_to(int64_t epoch);
  double base_rate(int32_t optimizer) const;
  int64_t scheduled();
  bool may_skip() const;
  void end_left_batch();
  void stop_where_interrupted();
  [[noreturn]] void stop();

  Session& session_;
  Trainer& trainer_;
  backends::Collectives* const ranks_;  // that gradients are added up with; null: there are no others
  Hooks& hooks_;
  LoopHost& host_;
  const std::vector<Shares> shares_;  // of those ranks
  std::optional<Segment> segment_;
  int reads_ = 0;          // in this segment
  int64_t caught_up_ = 0;  // of its meetings
  Batches train_, eval_;
  std::optional<bool> evening_;  // none: as the recipe has it
  bool warned_of_evening_ = false;
  int64_t batches_ = 0;  // so far, which number them
  Window window_;
  std::vector<bool> reached_;  // by ParameterId: what the gradients that are held are of, on this replica
  Touched touched_;
  EpochCount epochs_;
  std::optional<NotFinite> not_finite_;  // the first on any replica, found once: it takes a while
  bool stopped_ = false;                 // the run was over, and the hook would have gone on
};

}  // namespace runner::train
