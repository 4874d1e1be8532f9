// A model in training: its compiled steps on its arrays, one optimizer window at a time.
//
// The Trainer executes Plans and nothing else; what a step computes is in StepBuilder and Segment.  It knows nothing of
// epochs, evaluation, the store or the time: that is replica_run.h.  After the first window of each shape a window of
// a declared model that is trained by one process allocates nothing.  Not thread-safe.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/backend.h"
#include "runner/data/load.h"
#include "runner/data/loader.h"
#include "runner/nn/models.h"
#include "runner/train/loop/memory_use.h"
#include "runner/train/step/device_arrays.h"
#include "runner/train/step/device_layout.h"
#include "runner/train/step/executor.h"
#include "runner/train/step/loader_marks.h"
#include "runner/train/step/not_finite.h"
#include "runner/train/step/pending_window.h"
#include "runner/train/step/segment_runner.h"
#include "runner/train/step/step_arguments.h"
#include "runner/train/step/step_builder.h"
#include "runner/train/step/trace_once.h"
#include "runner/train/step/traced_graphs.h"
#include "runner/train/step/update_clock.h"
#include "runner/train/step/window.h"
#include "schema/recipe.h"

namespace runner::train {

// One batch as the model left it.
struct Evaluated {
  std::vector<float> outputs;    // (B, N)
  std::vector<int64_t> classes;  // (B), for classes; of a text (B, T)
  std::vector<float> targets;    // (B, N), for targets
  std::vector<float> losses, weights;
  MetricSums metrics;  // of a hook
};

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

  // Gives the model its arrays on the device, with the initial parameters: before anything runs, reads or writes.
  // Replicas call it together: they update one copy of the weights (shares.h), unless a loop of a hook's does it.
  void allocate();
  DeviceArrays& arrays() { return arrays_; }
  const DeviceArrays& arrays() const { return arrays_; }

  // Steps have no more samples than these at once, and larger batches are computed in parts; 0: any number.
  void set_most_at_once(int64_t samples) { most_at_once_ = samples; }
  int64_t most_at_once() const { return most_at_once_; }
  // Of a batch of so many samples, the first part.
  int64_t at_once(int64_t batch) const { return most_at_once_ > 0 ? std::min(batch, most_at_once_) : batch; }

  // Compiles a training step ahead of its first use: what does not fit together is found before a run begins.
  void prepare(const StepShape& shape);
  // Before allocate(), on a device that keeps account of graphs: compiles all kinds of training steps, and that of an
  // evaluation with batches of so many (0: there is none), each of which must fit its memory.
  void check_graphs_fit(const data::DataPlan& plan, int64_t evaluation_batch);

  // Goes on with a window: takes batches from `loader` up to where gradients and sums are those of all replicas, so
  // that a state can hold them.  That is the end of the window, where the optimizer steps, and before it the end of an
  // epoch and every kBatchesOfPart batches; with sync_each_batch, and where there is one replica, each batch.  A window
  // that is not finite counts only if such windows are skipped (train.on_nan).  `rates`: of the next step of the
  // schedule behind all that are pending.  The device may be at work when it returns, and the end of a window is
  // counted as if it were finite, until learn_end().
  void advance(data::Loader& loader, const WindowRates& rates, TrainingWindow& window);
  // Waits for the newest window, and learns how it has ended.  Throws what has failed in it.
  void learn_end(TrainingWindow& newest);
  // Whether that may come behind the recording of the next window's first batch: the next window then throws where this
  // one was not finite, before it computes anything, and learn_end() still tells.
  bool may_learn_late() const;
  // From its beginning to its end.
  TrainingWindow run_window(data::Loader& loader, const WindowRates& rates);
  // Whether this is a replica that updates weights of its own between averages (train.local_sgd): none but its own
  // batches count in a step, and states and evaluations need an average before.
  bool is_local() const { return ranks_ != nullptr && recipe_.train.average_every.has_value(); }
  // Called by all such replicas together: their weights become one, the mean of all, and so do moments, and gradients
  // that a loop of a hook's has kept.
  void average();
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

  // Trained parameters on which the loss of a step has not depended, "2.weight, 2.bias": of the first such kind of
  // step.
  const std::string& unused() const { return unused_; }
  // Notes such names.  Throws Error(kRun) with comm.unused: error.
  void note_unused(const std::string& names);

  // Those of a hook's training step; what of them is for points is given away once.
  const StepMetrics& metrics() const { return metrics_; }
  MetricSums take_metrics();
  void set_metrics(StepMetrics metrics) { metrics_ = std::move(metrics); }

  // Mean train loss by weight over the windows since the last call; NaN when there was none.
  double take_logged_loss();

  // What was not finite first in the window that `loader` yields once more: "parameter 0.weight is inf", "a feature of
  // sample 17 is nan", "the result of exp … is inf".  Nothing must have been updated since that window, `before` of
  // whose batches come before the loader's first.  A transform of the loader's gives the same batches again
  // (data/transform.h); a hook does again what it did behind `mark`, and is left as it is.
  NotFinite explain_not_finite(data::Loader& loader, int64_t before, const HookMark& mark);

  const StepBuilder& builder() const { return builder_; }
  // Batches of a window, from the next one on.
  int64_t accumulation() const { return accumulation_; }
  void set_accumulation(int64_t batches) { accumulation_ = batches; }
  // Whether a batch is the last of its window, `before` of which are before it.
  bool ends_window(const data::Batch& batch, int64_t before) const;
  // Of a hook's loop.
  SegmentRunner& segments() { return segments_; }

  // Who takes batches from a loader, of training or not, tells these.
  LoaderMarks& marks() { return marks_; }
  // The code of a loop cuts, that of an evaluation reads its figures, or that of a checkpoint the arrays, or it fills
  // them.
  void note_step_mark() { device_.note(backends::HostEvent::kStepMark); }
  void note_figure_read() { device_.note(backends::HostEvent::kFigureRead); }
  void note_state_use() { device_.note(backends::HostEvent::kStateUse); }
  // Replicas of a device whose replicas all run one graph: called by all where they have done a window, or an
  // evaluation.  Throws Error(kRun) where their hooks have traced different ones.
  void compare_graphs();

  // Asks a hook for its step and runs nothing: of a replica without samples, whose hook may meet the others.
  void record(const data::Batch& batch, bool training);

  // One batch through the model; `result` is overwritten.  `first`: of an evaluation.
  void evaluate(const data::Batch& batch, bool first, Evaluated& result);
  // The same without labels.
  void predict(const data::Batch& batch, std::span<float> outputs);

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
  // What the steps of an epoch's windows need on the replica with the most samples, and that of an evaluation with
  // batches of so many: compiled for it.
  int64_t temporary_bytes_of_window(const data::DataPlan& plan);
  int64_t temporary_bytes_of_evaluation(int64_t batch);

  // How the steps came by their plans; printed at the end with RUNNER_DEBUG=1.
  struct PlanUse {
    backends::PlanCacheCounters cache;
    int64_t replayed = 0;  // steps that held their plan already, without asking the cache
  };
  PlanUse plan_use() const { return {executor_.cache().counters(), replayed_}; }

  Counters counters;

 private:
  struct StepKind {
    bool training;
    bool labelled;    // of a forward step
    StepShape shape;  // first and last: of a training step; first: of an evaluation, too
    // Of replicas that update together, for an account of graphs: the update belongs to it.
    bool closes_window = false;
    int64_t padded = 0;  // samples of a declared step's batch in such an account: those of the replica with most
    const MessageLayout* message = nullptr;  // in which gradients travel; null: in their arrays
    bool operator==(const StepKind&) const = default;
  };
  // Of replicas: inside a window, or at its end.
  struct Meeting {
    bool ends_window = false;
    bool are_summed = false;                 // the gradients, in buckets
    const MessageLayout* message = nullptr;  // that they read; null: none
    auto operator<=>(const Meeting&) const = default;
  };
  struct HeldStep {
    StepKind kind;
    SharedStep step;
    std::optional<KeptTrace> trace = {};  // of a hook, with tpu.trace_once
  };

  // ---- windows ----

  // Takes batches up to where the gradients of all replicas are to be added up.  The last step, whose outputs can be
  // read where it has ended the window; null where a replica has had no batch.
  SharedStep run_batches(data::Loader& loader, const WindowRates& rates, TrainingWindow& window);
  // One part of a batch; `last`: of the window's last batch.
  SharedStep run_part(const data::Batch& part, bool last);
  // As run_batches() on each replica, and the step that adds up what all have, at the end of the window with the
  // update.
  SharedStep run_batches_together(data::Loader& loader, const WindowRates& rates, TrainingWindow& window);
  void reduce_in_buckets();
  void keep_sum_of_part(const CompiledStep& part);
  void end_window(const SharedStep& step, const WindowRates& rates, TrainingWindow& window);
  // Waits for what is under way, and reads what it has left for the host.  What has failed is kept.
  void settle() { pending_.settle(); }
  // The same before something that follows it: throws what has failed, of which a hook may have heard before.
  void wait_for_batch();
  // Gradients of several batches add up in their arrays.
  bool sends_messages() const { return accumulation_ == 1; }
  const MessageLayout* message(int64_t largest) { return sends_messages() ? arrays_.message(largest) : nullptr; }
  // Whether this process makes a step from its own batches alone.
  bool steps_alone() const { return ranks_ == nullptr || is_local(); }
  bool sums_behind(const TrainingWindow& window) const;
  std::optional<NotFinite> find_not_finite(data::Loader& loader, int64_t before);
  std::optional<NotFinite> find_not_finite(const data::Batch& batch);

  // {Σ loss, Σ weight} since the last call.
  std::array<double, 2> logged_sums_of_all();
  UpdateClock* clock() { return clock_ ? &*clock_ : nullptr; }

  // ---- steps ----

  SharedStep step_of(const StepKind& kind, const data::Batch* batch);
  SharedStep make_step(const StepKind& kind, const data::Batch* batch);
  SharedStep training_step(const StepShape& shape, const data::Batch* batch, bool closes_window = false);
  SharedStep forward_step(const data::Batch& batch, bool labelled, bool first);
  SharedStep run_forward(const data::Batch& batch, bool labelled, bool first);
  const SharedStep& meeting_step(const Meeting& kind);
  Meeting end_of_window(const MessageLayout* message);
  SharedStep compile_training_step(const StepKind& kind);
  SharedStep compile_forward_step(const StepKind& kind);
  StepBuilder::Recorded recorded_as_counted(const StepKind& kind) const;
  int64_t padded(int64_t size, const data::Batch* batch, bool training) const;
  StepShape shape_of(int64_t batch, bool first, bool last) const;
  bool may_ask_for_values() const;

  // ---- recordings ----

  void begin_recording();
  // Of a hook that is not asked again.
  bool replays(bool training) const { return traces_once(recipe_) && builder_.varies(training); }
  void keep_trace(HeldStep& held);
  void use_trace(HeldStep& held, const data::Batch* batch);
  // Reads values of a recording under way from the arrays and the batch (null: there is none yet).
  StepBuilder::Read reader(const data::Batch* batch, bool training);
  BatchPlace place_of(const data::Batch& batch, bool training) const;
  // The one at hand, where there was one for this step.
  const StepBuilder::Recorded* recording_of_step(bool training) const {
    return builder_.varies(training) ? recorded_ : nullptr;
  }
  // Those of StepArguments, for what may follow what is under way.
  backends::Arguments arguments(const data::Batch& batch, const StepBuilder::Recorded* recorded,
                                StepArguments::Traced traced = StepArguments::Traced::kForward,
                                std::span<const backends::TracedScalar> rule_numbers = {});

  const schema::Recipe& recipe_;
  const data::Encoding& encoding_;
  backends::Device& device_;
  nn::Model model_;
  Hooks* const hooks_;
  backends::Collectives* const ranks_;
  const Optimizers optimizers_;
  const DeviceLayout layout_;
  const StepBuilder builder_;
  DeviceArrays arrays_;
  std::optional<UpdateClock> clock_;  // where the device counts
  LoaderMarks marks_;
  Executor executor_;
  StepArguments arguments_;
  std::optional<TracedGraphs> traced_graphs_;  // where replicas compare them
  SegmentRunner segments_;
  StepMetrics metrics_;
  PendingWindow pending_;

  int64_t accumulation_;
  int64_t most_at_once_ = 0;
  const MessageLayout* message_ = nullptr;  // of the newest batch; null: gradients travel in their arrays
  std::string unused_;

  // The recording of a declared model is a function of the kind of step, so a steady step does not even record.
  std::deque<HeldStep> held_;  // which stay where they are
  // That of a hook is made anew for each step, in one of two, while the device works on the other.
  std::array<StepBuilder::Recorded, 2> recordings_;
  StepBuilder::Recorded* recorded_ = recordings_.data();
  std::map<Meeting, SharedStep> meeting_steps_;
  int64_t replayed_ = 0;
};

}  // namespace runner::train
