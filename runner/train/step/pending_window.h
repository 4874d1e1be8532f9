// The newest window of a declared loop: what of it the device may be at work on, and how it has ended.
//
// The host goes on while the device computes, so the end of a window is counted as if it were finite, and taken back
// when the host learns that it was not, or has failed.  From begin() to learn_end() it is one window.  settle() comes
// before anything else is submitted, since the device has the outputs of its newest submission alone.  Not thread-safe.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <utility>

#include "backends/backend.h"
#include "runner/train/step/batch_place.h"
#include "runner/train/step/executor.h"
#include "runner/train/step/optimizers.h"
#include "runner/train/step/step_builder.h"
#include "runner/train/step/step_metrics.h"
#include "runner/train/step/window.h"
#include "schema/recipe.h"

namespace runner::train {

// Adds the metrics of a hook's step, which has run: outputs from `first` on.
void add_metrics(backends::Device& device, const CompiledStep& step, const StepBuilder::Recorded& recorded, int first,
                 MetricSums& sums);

class PendingWindow {
 public:
  // `device_counts`: which windows were applied (update_clock.h), and the host does not know.  All must outlive it.
  PendingWindow(const schema::Recipe& recipe, backends::Device& device, const Optimizers& optimizers,
                Counters& counters, StepMetrics& metrics, bool device_counts);

  // What the device computes, and what the host reads of it then.
  struct UnderWay {
    backends::Ticket ticket;
    SharedStep step;
    const StepBuilder::Recorded* recorded;  // with metrics of a hook; null: there are none
    bool completes;                         // a window
    BatchPlace batch;
  };
  // A window goes on: what there was of the one before is over.
  void begin();
  // What comes next updates what is trained: a step that is submitted, until settle() has seen it done, or that of all
  // replicas, which is done when the window has ended.
  void begin_update() { update_ = Update::kOfStep; }
  void begin_update_of_all() { update_ = Update::kOfAll; }
  // Behind what has failed: whether what is trained may be other than at the end of the newest window that has ended.
  bool may_be_half_updated() const {
    return update_ == Update::kOfAll || (update_ == Update::kOfStep && device_.has_written_states());
  }
  void set_under_way(UnderWay submitted) { under_way_ = std::move(submitted); }
  // Whether the device may read what is in a recording.
  bool reads(const StepBuilder::Recorded& recorded) const { return under_way_ && under_way_->recorded == &recorded; }

  // Waits for what is under way, and adds metrics that it has left to those of the batches.  What has failed is kept.
  void settle();
  // Throws what has failed, and forgets it.
  void throw_failure();
  // The same without forgetting it, since a hook may catch it and go on; and Error(kRun) where the window before was
  // not finite and ends the run.  Before anything is made ready that follows it.
  void check() const;

  // `step` ends the window, or has: it counts as if it were finite.
  void end(const SharedStep& step, const WindowRates& rates, const TrainingWindow& window);
  // Whether one has ended, and the caller has not learned how.
  bool has_ended() const { return ended_.has_value(); }
  // Behind settle(), where one has: says how.
  void learn_end(TrainingWindow& newest);

  // Where the device counts: whether the window's step was applied, and its rate, as long as its outputs are there.
  void read_outcome();
  void tell_outcome(TrainingWindow& newest) const;

 private:
  // What of a window can be known behind it.
  struct Ended {
    int64_t scheduled, samples, repeats;  // that were counted with it
    bool known = false, finite = true;
    double grad_norm = 0;
  };
  struct Outcome {
    bool applied;
    double lr;
  };
  enum class Update { kNone, kOfStep, kOfAll };
  // The first of the outputs that StepOutput does not name: `applied` and the factor, where there are such.
  int outcome_outputs() const;
  void read_end(const CompiledStep& step);
  void take_back();

  const schema::Recipe& recipe_;
  backends::Device& device_;
  const Optimizers& optimizers_;
  Counters& counters_;
  StepMetrics& metrics_;
  const bool device_counts_;
  std::optional<UnderWay> under_way_;
  std::optional<Ended> ended_;  // from end() until learn_end()
  std::exception_ptr failure_;
  Update update_ = Update::kNone;
  SharedStep step_;                 // that has ended the window; null: it goes on
  std::optional<Outcome> outcome_;  // of that
};

}  // namespace runner::train
