// A model in training: compiled steps and their arrays, one optimizer step at a time.
//
// The Trainer only executes Plans; StepBuilder and Segment define what a step computes. Epochs, evaluation, the store
// and time belong to rank_run.h. After the first optimizer step of each shape, a declared model trained by one
// process allocates nothing. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "backends/model/modelled_device.h"
#include "runner/data/load.h"
#include "runner/data/loader.h"
#include "runner/data/plan.h"
#include "runner/model/models.h"
#include "runner/train/engine/batch_feed.h"
#include "runner/train/engine/device_arrays.h"
#include "runner/train/engine/device_layout.h"
#include "runner/train/engine/executor.h"
#include "runner/train/engine/forward.h"
#include "runner/train/engine/loader_marks.h"
#include "runner/train/engine/means.h"
#include "runner/train/engine/memory_use.h"
#include "runner/train/engine/pending_window.h"
#include "runner/train/engine/segment_runner.h"
#include "runner/train/engine/step_arguments.h"
#include "runner/train/engine/step_builder.h"
#include "runner/train/engine/step_metrics.h"
#include "runner/train/engine/steps.h"
#include "runner/train/engine/update_clock.h"
#include "runner/train/engine/user_work.h"
#include "runner/train/engine/window.h"
#include "runner/train/engine/window_search.h"
#include "schema/recipe/recipe.h"

namespace runner::train {

// Maximum number of batches of an optimizer step between all-reduces. An interrupt then takes effect soon even in a
// long optimizer step, and the overhead is negligible.
inline constexpr int64_t kBatchesOfPart = 8;

class Trainer {
 public:
  // Lays out the model without allocating memory. `hooks`: null if there is no hook. `ranks`: process group, or null
  // for a single process. Throws Error(kRecipe) or Error(kData) if recipe, data and weights do not fit together. All
  // arguments must outlive the object.
  Trainer(const schema::Recipe& recipe, const data::Encoding& encoding, backends::ModelledDevice& device,
          Hooks* hooks = nullptr, backends::ProcessGroup* ranks = nullptr);
  ~Trainer();

  // `halt` is called repeatedly while steps are compiled and parameters are initialised before the first step, and
  // throws to stop. Empty, the default, never stops.
  void set_halt(std::function<void()> halt) { executor_.set_halt(std::move(halt)); }

  // Allocates the arrays and writes the initial parameters. Call before anything runs, reads or writes. Collective. The
  // ranks share one copy of the weights (shares.h), unless a hook has its own training loop.
  void allocate();
  // Keeps gradients between micro-batches too. Call before a step is compiled.
  void keep_gradients();
  DeviceArrays& arrays() { return arrays_; }
  const DeviceArrays& arrays() const { return arrays_; }

  // Compiles a training step before its first use, to find mismatches before a run begins.
  void prepare(const StepShape& shape);
  // On lazy devices, before allocate(): compiles all kinds of training steps, and the evaluation step for batches of
  // `evaluation_batch` samples (0: none), and checks that each fits into device memory.
  void check_graphs_fit(const data::DataPlan& plan, int64_t evaluation_batch);

  // Makes the argument of advance().
  BatchFeed feed(data::Loader& loader, std::function<bool()> give_up = {}) {
    return {loader, std::move(give_up), device_, encoding_};
  }
  // Continues an optimizer step: takes batches until gradients and sums are those of all ranks and can be saved in a
  // checkpoint. That is at the end of the optimizer step, after its update. It is also at the end of an epoch and every
  // kBatchesOfPart batches; with sync_each_batch or a single rank, after every batch. An optimizer step that is not
  // finite counts only with train.on_nan: skip. `rates`: for the next schedule step after all pending ones.
  // `asked_to_stop`: whether this rank was asked to stop; ranks share it at each all-reduce
  // (TrainingWindow::interrupted). May return while the device is still running. A finished optimizer step counts as
  // finite until learn_end().
  void advance(BatchFeed& batches, const WindowRates& rates, TrainingWindow& window,
               const std::function<bool()>& asked_to_stop = {});
  // Waits for the last optimizer step and sets how it ended. Throws its error.
  void learn_end(TrainingWindow& newest);
  // After advance() or learn_end() has thrown: whether the failed optimizer step may have updated some arrays.
  bool may_be_half_updated() const { return pending_.may_be_half_updated(); }
  // Whether learn_end() may be called as late as after the first batch of the next optimizer step has been recorded. If
  // the earlier step was not finite, the next one then throws before it computes anything, and learn_end() still
  // reports it.
  bool may_learn_late() const;
  // Runs a whole optimizer step.
  TrainingWindow run_window(data::Loader& loader, const WindowRates& rates);
  // Whether ranks update separate weights between averages (train.local_sgd). A step then uses only the rank's own
  // batches, and checkpoints and evaluations need an average first.
  bool is_local() const { return ranks_ != nullptr && recipe_.train.local_sgd.has_value(); }
  // Counts a finished optimizer step. run_window() does so itself.
  void count(const TrainingWindow& window);

  // With device-side counters (update_clock.h): number of optimizer steps whose outcome the host does not know. The
  // counters lack their updates and schedule steps.
  int64_t pending() const { return clock_ ? clock_->pending() : 0; }
  // Reads the device-side counters. `newest`: the last optimizer step, whose outcome is set.
  void learn();
  void learn(TrainingWindow& newest);

  // Loss scale of the next step; none without loss scaling.
  std::optional<double> loss_scale();

  const StepBuilder& builder() const { return builder_; }
  Steps& steps() { return steps_; }
  // For a hook's training loop.
  SegmentRunner& segments() { return segments_; }
  Forward& forward() { return forward_; }
  Means& means() { return means_; }
  // Finds what was not finite in an optimizer step.
  WindowSearch& search() { return search_; }

  // Code that takes batches from any loader must call these.
  LoaderMarks& marks() { return marks_; }
  // Call when the user's code marks a step, reads a metric in an evaluation, or saves or loads the arrays for a
  // checkpoint.
  void on_host_event(backends::HostEvent event) { device_.on_host_event(event); }

  const schema::Recipe& recipe() const { return recipe_; }
  const nn::Model& model() const { return model_; }
  const Optimizers& optimizers() const { return optimizers_; }
  const DeviceLayout& layout() const { return layout_; }
  const data::Encoding& encoding() const { return encoding_; }

  // Returns the memory of the arrays, and the temporary memory of the device.
  MemoryUse memory() const;
  // The kinds of training steps in the first and in the last optimizer step of an epoch, on the rank with the largest
  // batches.
  struct WindowStep {
    StepShape shape;
    bool closes_window;  // with several ranks: an update of all ranks follows
    bool operator==(const WindowStep&) const = default;
  };
  std::vector<WindowStep> steps_of_windows(const data::DataPlan& plan) const;
  // Returns the peak memory of the rank with the largest batches, including arrays: during epochs, and during
  // evaluations between them, if there are any. Compiles their steps.
  PeakMemory peak_memory(const data::DataPlan& plan, const std::optional<data::DataPlan>& evaluation);

  // How steps obtained their plans; printed at the end with RUNNER_DEBUG=1.
  struct PlanUse {
    backends::PlanCacheCounters cache;
    int64_t replayed = 0;  // steps that had their plan already, without using the plan cache
  };
  PlanUse plan_use() const { return {executor_.cache().counters(), steps_.replayed()}; }

  Counters counters;
  StepMetrics metrics;
  WindowParts parts;

 private:
  // A step in which ranks add up their gradients: within an optimizer step, or at its end.
  struct Meeting {
    bool ends_window = false;
    SumSource source = SumSource::kRows;
    const MessageLayout* message = nullptr;  // layout of factored gradients to read; null if there are none
    auto operator<=>(const Meeting&) const = default;
  };

  // Takes batches until the gradients of all ranks must be added up. Returns the last step, whose outputs can be read
  // if it ended the optimizer step; null if the rank had no batch.
  SharedStep run_batches(BatchFeed& batches, const WindowRates& rates, TrainingWindow& window);
  // Properties of a micro-batch.
  struct PartOfWindow {
    uint64_t staged = 0;  // BatchFeed::staged(), or 0
    bool ends_window = false;
    bool reduces = false;  // GPUs that share nothing reduce their gradients after it
  };
  SharedStep run_part(const data::Batch& part, const PartOfWindow& place);
  // Calls run_batches() on each rank, then runs the step that adds up the results of all ranks and, at the end of the
  // optimizer step, updates.
  SharedStep run_batches_together(BatchFeed& batches, const WindowRates& rates, TrainingWindow& window,
                                  const std::function<bool()>& asked_to_stop);
  void reduce_in_buckets();
  void keep_sum_of_part(const CompiledStep& part);
  void end_window(const SharedStep& step, const WindowRates& rates, TrainingWindow& window);
  // Gradients of several batches accumulate in their arrays.
  bool sends_messages() const { return parts.accumulation == 1; }
  const MessageLayout* message(int64_t largest) { return sends_messages() ? arrays_.message(largest) : nullptr; }
  // Whether this process makes an optimizer step from its own batches only.
  bool steps_alone() const { return ranks_ == nullptr || is_local(); }
  bool sums_behind(const TrainingWindow& window) const;
  UpdateClock* clock() { return clock_ ? &*clock_ : nullptr; }

  SharedStep training_step(const StepShape& shape, const data::Batch* batch, bool closes_window = false);
  const SharedStep& meeting_step(const Meeting& kind);
  Meeting end_of_window(const MessageLayout* message);
  Meeting part_of_window(const MessageLayout* message) const;
  StepShape shape_of(int64_t batch, bool first, bool last) const;
  bool may_ask_for_values() const;
  // Executables on the rank with the largest batches, in order: the first and the last ones of an epoch or evaluation,
  // which represent those in between.
  using Executables = std::vector<std::shared_ptr<backends::Executable>>;
  Executables steps_of_epoch(const data::DataPlan& plan);
  void add_window(const data::DataPlan& plan, const data::Window& window, Executables& steps);
  Executables steps_of_evaluation(const data::DataPlan& plan);

  const schema::Recipe& recipe_;
  const data::Encoding& encoding_;
  backends::ModelledDevice& device_;
  nn::Model model_;
  Hooks* const hooks_;
  backends::ProcessGroup* const ranks_;
  const Optimizers optimizers_;
  DeviceLayout layout_;
  const StepBuilder builder_;
  DeviceArrays arrays_;
  std::optional<UpdateClock> clock_;  // only if the device counts updates
  LoaderMarks marks_;
  Executor executor_;
  UserWork user_;
  StepArguments arguments_;
  PendingWindow pending_;
  Steps steps_;
  SegmentRunner segments_;
  Forward forward_;
  Means means_;
  WindowSearch search_;

  const MessageLayout* message_ = nullptr;  // of the current batch; null if gradients are in their arrays
  std::map<Meeting, SharedStep> meeting_steps_;
};

}  // namespace runner::train
