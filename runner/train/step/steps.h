// The steps of a training, each kind compiled when it is needed first, and what a hook records for them.
//
// The recording of a declared model is a function of the kind of step, so a steady step does not even record.  That of
// a hook is made anew for each step, in one of two places, while the device works on what is in the other.  Not
// thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>

#include "backends/backend.h"
#include "runner/data/loader.h"
#include "runner/train/step/batch_place.h"
#include "runner/train/step/device_arrays.h"
#include "runner/train/step/executor.h"
#include "runner/train/step/hooks.h"
#include "runner/train/step/pending_window.h"
#include "runner/train/step/step_arguments.h"
#include "runner/train/step/step_builder.h"
#include "runner/train/step/trace_once.h"
#include "runner/train/step/traced_graphs.h"
#include "runner/train/step/window.h"

namespace runner::train {

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

class Steps {
 public:
  // What it is made from; all must outlive it.
  struct Sources {
    const StepBuilder& builder;
    backends::Device& device;
    DeviceArrays& arrays;
    Executor& executor;
    StepArguments& arguments;
    PendingWindow& pending;
    const Counters& counters;
    Hooks* hooks;                  // null: there is none
    backends::Collectives* ranks;  // null: there are no other replicas
  };
  explicit Steps(const Sources& from);

  // `batch`: null, or that which a hook may read values with.
  SharedStep find(const StepKind& kind, const data::Batch* batch);
  // Asks a hook for its step and runs nothing: of a replica without samples, whose hook may meet the others.
  void record(const data::Batch& batch, bool training);
  // The newest recording, where there was one for this step.
  const StepBuilder::Recorded* recording(bool training) const {
    return from_.builder.varies(training) ? recorded_ : nullptr;
  }
  uint64_t form() const { return recorded_->form; }
  // Reads values of a recording under way from the arrays and the batch (null: there is none yet).
  StepBuilder::Read reader(const data::Batch* batch, bool training);

  // Those of StepArguments, for what may follow what is under way.
  backends::Arguments arguments(const data::Batch& batch, const StepBuilder::Recorded* recorded,
                                StepArguments::Traced traced = StepArguments::Traced::kForward,
                                std::span<const backends::TracedScalar> rule_numbers = {});
  // Waits for what is under way, and throws what has failed, of which a hook may have heard before.
  void wait_for_batch();
  BatchPlace place_of(const data::Batch& batch, bool training, bool labelled = true) const;
  // Samples of a step for one of so many: StepKind::padded.
  int64_t padded(int64_t size, const data::Batch* batch, bool training) const;

  // Trained parameters on which the loss of a step has not depended, "2.weight, 2.bias": of the first such kind of
  // step.
  const std::string& unused() const { return unused_; }
  // Notes such names.  Throws Error(kRun) with comm.unused: error.
  void note_unused(const std::string& names);

  // Where replicas compare them; null: they do not.
  TracedGraphs* traced_graphs() { return traced_graphs_ ? &*traced_graphs_ : nullptr; }
  // Replicas of a device whose replicas all run one graph: called by all where they have done a window, or an
  // evaluation.  Throws Error(kRun) where their hooks have traced different ones.
  void compare_graphs();

  // Steps that held their plan already, without asking the cache.
  int64_t replayed() const { return replayed_; }

 private:
  struct HeldStep {
    StepKind kind;
    SharedStep step;
    std::optional<KeptTrace> trace = {};  // of a hook, with tpu.trace_once
  };

  SharedStep make(const StepKind& kind, const data::Batch* batch);
  SharedStep compile_training_step(const StepKind& kind);
  SharedStep compile_forward_step(const StepKind& kind);
  std::optional<BatchPlace> known_place(const data::Batch* batch, bool training) const;
  StepBuilder::Recorded recorded_as_counted(const StepKind& kind) const;
  void begin_recording();
  // Of a hook that is not asked again.
  bool replays(bool training) const { return traces_once(from_.builder.recipe()) && from_.builder.varies(training); }
  void keep_trace(HeldStep& held);
  void use_trace(HeldStep& held, const data::Batch* batch);

  const Sources from_;
  std::optional<TracedGraphs> traced_graphs_;
  std::string unused_;
  std::deque<HeldStep> held_;  // which stay where they are
  std::array<StepBuilder::Recorded, 2> recordings_;
  StepBuilder::Recorded* recorded_ = recordings_.data();
  int64_t replayed_ = 0;
};

}  // namespace runner::train
