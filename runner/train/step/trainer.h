// A model in training: its compiled steps on its arrays, one optimizer window at a time.
//
// The Trainer executes Plans and nothing else; what a step computes is in StepBuilder and Segment.  It knows nothing of
// epochs, evaluation, the store or the time: that is replica_run.h.  After the first window of each shape a window of
// a declared model that is trained by one process allocates nothing.  Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "backends/account.h"
#include "backends/backend.h"
#include "runner/data/load.h"
#include "runner/data/loader.h"
#include "runner/data/plan.h"
#include "runner/nn/models.h"
#include "runner/train/step/batch_feed.h"
#include "runner/train/step/device_arrays.h"
#include "runner/train/step/device_layout.h"
#include "runner/train/step/executor.h"
#include "runner/train/step/forward.h"
#include "runner/train/step/loader_marks.h"
#include "runner/train/step/means.h"
#include "runner/train/step/memory_use.h"
#include "runner/train/step/pending_window.h"
#include "runner/train/step/segment_runner.h"
#include "runner/train/step/step_arguments.h"
#include "runner/train/step/step_builder.h"
#include "runner/train/step/step_metrics.h"
#include "runner/train/step/steps.h"
#include "runner/train/step/update_clock.h"
#include "runner/train/step/window.h"
#include "runner/train/step/window_search.h"
#include "schema/recipe.h"

namespace runner::train {

// Batches of a window after which replicas add up what they have, at the latest: so that the wait for the end of a long
// window is short for who interrupts it, and costs next to nothing.
inline constexpr int64_t kBatchesOfPart = 8;

class Trainer {
 public:
  // Lays the model out, without memory for it.  Throws Error(kRecipe) or Error(kData) where recipe, data and weights do
  // not fit each other.  All arguments must outlive the Trainer.
  // `hooks`: null, or what stands for parts of the recipe.  `ranks`: null, or the replicas, one of which this is.
  Trainer(const schema::Recipe& recipe, const data::Encoding& encoding, backends::Device& device,
          Hooks* hooks = nullptr, backends::Collectives* ranks = nullptr);
  ~Trainer();

  // What takes long before the first step, to compile steps and to draw parameters, asks this in between, which throws
  // where the rest is not to be done.  Empty, as at first: all is done.
  void set_halt(std::function<void()> halt) { executor_.set_halt(std::move(halt)); }

  // Gives the model its arrays on the device, with the initial parameters: before anything runs, reads or writes.
  // Replicas call it together: they update one copy of the weights (shares.h), unless a loop of a hook's does it.
  void allocate();
  // Between parts of a batch, too.  Before a step is compiled.
  void keep_gradients();
  DeviceArrays& arrays() { return arrays_; }
  const DeviceArrays& arrays() const { return arrays_; }

  // Compiles a training step ahead of its first use: what does not fit together is found before a run begins.
  void prepare(const StepShape& shape);
  // Before allocate(), on a device that keeps account of graphs: compiles all kinds of training steps, and that of an
  // evaluation with batches of so many (0: there is none), each of which must fit its memory.
  void check_graphs_fit(const data::DataPlan& plan, int64_t evaluation_batch);

  // For advance().
  BatchFeed feed(data::Loader& loader, std::function<bool()> give_up = {}) {
    return {loader, std::move(give_up), device_, encoding_};
  }
  // Goes on with a window: takes batches from `batches` up to where gradients and sums are those of all replicas, so
  // that a state can hold them.  That is the end of the window, where the optimizer steps, and before it the end of an
  // epoch and every kBatchesOfPart batches; with sync_each_batch, and where there is one replica, each batch.  A window
  // that is not finite counts only if such windows are skipped (train.on_nan).  `rates`: of the next step of the
  // schedule behind all that are pending.  The device may be at work when it returns, and the end of a window is
  // counted as if it were finite, until learn_end().
  // `asked_to_stop`: whether this replica has been; where replicas meet they learn of each other (window.interrupted).
  void advance(BatchFeed& batches, const WindowRates& rates, TrainingWindow& window,
               const std::function<bool()>& asked_to_stop = {});
  // Waits for the newest window, and learns how it has ended.  Throws what has failed in it.
  void learn_end(TrainingWindow& newest);
  // Behind what has failed in advance() or learn_end(): whether the window in which it has may have updated something.
  bool may_be_half_updated() const { return pending_.may_be_half_updated(); }
  // Whether that may come behind the recording of the next window's first batch: the next window then throws where this
  // one was not finite, before it computes anything, and learn_end() still tells.
  bool may_learn_late() const;
  // From its beginning to its end.
  TrainingWindow run_window(data::Loader& loader, const WindowRates& rates);
  // Whether this is a replica that updates weights of its own between averages (train.local_sgd): none but its own
  // batches count in a step, and states and evaluations need an average before.
  bool is_local() const { return ranks_ != nullptr && recipe_.train.average_every.has_value(); }
  // Counts a window that has run; run_window() does so itself.
  void count(const TrainingWindow& window);

  // Where the device counts what it applies (update_clock.h): windows of which the host does not know whether they were
  // applied, and whose updates and steps of the schedule the counters lack.
  int64_t pending() const { return clock_ ? clock_->pending() : 0; }
  // Learns of them.  `newest`: the newest window, of which it says what was not known.
  void learn();
  void learn(TrainingWindow& newest);

  // That of the next step; none: the loss is not scaled.
  std::optional<double> loss_scale();

  const StepBuilder& builder() const { return builder_; }
  Steps& steps() { return steps_; }
  // Of a hook's loop.
  SegmentRunner& segments() { return segments_; }
  Forward& forward() { return forward_; }
  Means& means() { return means_; }
  // Where a window was not finite.
  WindowSearch& search() { return search_; }

  // Who takes batches from a loader, of training or not, tells these.
  LoaderMarks& marks() { return marks_; }
  // The code of a loop cuts, that of an evaluation reads its figures, or that of a checkpoint the arrays, or it fills
  // them.
  void note_step_mark() { note(device_, backends::HostEvent::kStepMark); }
  void note_figure_read() { note(device_, backends::HostEvent::kFigureRead); }
  void note_state_use() { note(device_, backends::HostEvent::kStateUse); }

  const schema::Recipe& recipe() const { return recipe_; }
  const nn::Model& model() const { return model_; }
  const Optimizers& optimizers() const { return optimizers_; }
  const DeviceLayout& layout() const { return layout_; }
  const data::Encoding& encoding() const { return encoding_; }

  // What the arrays take, and the temporary memory that the device has.
  MemoryUse memory() const;
  // The kinds of training steps in windows as those at the beginning and at the end of an epoch, on the replica with
  // the most samples.
  struct WindowStep {
    StepShape shape;
    bool closes_window;  // where replicas update together behind it
    bool operator==(const WindowStep&) const = default;
  };
  std::vector<WindowStep> steps_of_windows(const data::DataPlan& plan) const;
  // What the replica with the most samples takes at most, arrays and all, in epochs, and with evaluations between them,
  // if there are any: their steps are compiled for it.
  PeakMemory peak_memory(const data::DataPlan& plan, const std::optional<data::DataPlan>& evaluation);

  // How the steps came by their plans; printed at the end with RUNNER_DEBUG=1.
  struct PlanUse {
    backends::PlanCacheCounters cache;
    int64_t replayed = 0;  // steps that held their plan already, without asking the cache
  };
  PlanUse plan_use() const { return {executor_.cache().counters(), steps_.replayed()}; }

  Counters counters;
  StepMetrics metrics;
  WindowParts parts;

 private:
  // Of replicas: inside a window, or at its end.
  struct Meeting {
    bool ends_window = false;
    bool are_summed = false;                 // the gradients, in buckets
    const MessageLayout* message = nullptr;  // that they read; null: none
    auto operator<=>(const Meeting&) const = default;
  };

  // Takes batches up to where the gradients of all replicas are to be added up.  The last step, whose outputs can be
  // read where it has ended the window; null where a replica has had no batch.
  SharedStep run_batches(BatchFeed& batches, const WindowRates& rates, TrainingWindow& window);
  // Of a part of a batch.
  struct PartOfWindow {
    uint64_t staged = 0;  // BatchFeed::staged(), or 0
    bool ends_window = false;
    bool reduces = false;  // GPUs that share nothing reduce their gradients behind it
  };
  SharedStep run_part(const data::Batch& part, const PartOfWindow& place);
  // As run_batches() on each replica, and the step that adds up what all have, at the end of the window with the
  // update.
  SharedStep run_batches_together(BatchFeed& batches, const WindowRates& rates, TrainingWindow& window,
                                  const std::function<bool()>& asked_to_stop);
  void reduce_in_buckets();
  void keep_sum_of_part(const CompiledStep& part);
  void end_window(const SharedStep& step, const WindowRates& rates, TrainingWindow& window);
  // Gradients of several batches add up in their arrays.
  bool sends_messages() const { return parts.accumulation == 1; }
  const MessageLayout* message(int64_t largest) { return sends_messages() ? arrays_.message(largest) : nullptr; }
  // Whether this process makes a step from its own batches alone.
  bool steps_alone() const { return ranks_ == nullptr || is_local(); }
  bool sums_behind(const TrainingWindow& window) const;
  UpdateClock* clock() { return clock_ ? &*clock_ : nullptr; }

  SharedStep training_step(const StepShape& shape, const data::Batch* batch, bool closes_window = false);
  const SharedStep& meeting_step(const Meeting& kind);
  Meeting end_of_window(const MessageLayout* message);
  StepShape shape_of(int64_t batch, bool first, bool last) const;
  bool may_ask_for_values() const;
  // On the replica with the most samples, in their order: what begins and ends an epoch, or an evaluation, and stands
  // for what is between.
  using Executables = std::vector<std::shared_ptr<backends::Executable>>;
  Executables steps_of_epoch(const data::DataPlan& plan);
  void add_window(const data::DataPlan& plan, const data::Window& window, Executables& steps);
  Executables steps_of_evaluation(const data::DataPlan& plan);

  const schema::Recipe& recipe_;
  const data::Encoding& encoding_;
  backends::Device& device_;
  nn::Model model_;
  Hooks* const hooks_;
  backends::Collectives* const ranks_;
  const Optimizers optimizers_;
  DeviceLayout layout_;
  const StepBuilder builder_;
  DeviceArrays arrays_;
  std::optional<UpdateClock> clock_;  // where the device counts
  LoaderMarks marks_;
  Executor executor_;
  StepArguments arguments_;
  PendingWindow pending_;
  Steps steps_;
  SegmentRunner segments_;
  Forward forward_;
  Means means_;
  WindowSearch search_;

  const MessageLayout* message_ = nullptr;  // of the newest batch; null: gradients travel in their arrays
  std::map<Meeting, SharedStep> meeting_steps_;
};

}  // namespace runner::train
