// The steps of a training run, compiled on first use, and the recordings that a hook makes for them.
//
// The recording of a declared model is a function of the kind of step, so repeated steps are not recorded again. A hook
// records each step again, into one of two recordings while the device runs the other. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>

#include "backends/device_model/modelled_device.h"
#include "runner/data/loader.h"
#include "runner/train/engine/batch_place.h"
#include "runner/train/engine/device_arrays.h"
#include "runner/train/engine/engine_parts.h"
#include "runner/train/engine/executor.h"
#include "runner/train/engine/step_arguments.h"
#include "runner/train/engine/traced_graphs.h"
#include "runner/train/engine/user_work.h"
#include "runner/train/step/step_builder.h"
#include "runner/train/step/step_hooks.h"
#include "runner/train/step/trace_once.h"

namespace runner::train {

class Steps {
 public:
  explicit Steps(const EngineParts& parts);

  // Returns the compiled step. `batch`: its batch, which a hook may read values with, or null.
  SharedStep find(const StepKind& requested, const data::Batch* batch);
  // Calls a hook's step and runs nothing: for a rank without samples, whose hook may take part in collectives.
  void record(const data::Batch& batch, bool training);
  // Records a training batch of this size without samples, and restores the hook.
  void try_forward(const StepShape& shape);
  // The last recording, if this step was recorded.
  const StepBuilder::Recorded* recording(bool training) const {
    return parts_.builder.varies(training) ? recorded_ : nullptr;
  }
  uint64_t loss_shape_digest() const { return recorded_->loss_shape; }
  // Reads values of a recording in progress, from the arrays and the batch (null if there is none yet).
  StepBuilder::Read reader(const data::Batch* batch, bool training);
  // Whether a recording has read a value without a batch, which fails. The hook's steps are then known only in a run.
  bool lacked_batch() const { return lacked_batch_; }

  // Like StepArguments::of_step(), after waiting for the submission in flight.
  StepSubmission arguments(const data::Batch& batch, const StepBuilder::Recorded* recorded,
                           TracedUntil traced = TracedUntil::kForward,
                           std::span<const backends::TracedScalar> rule_numbers = {});
  // Waits for the submission in flight. Throws its error, which a hook may have seen before.
  void wait_for_batch();
  BatchPlace place_of(const data::Batch& batch, bool training, bool labelled = true) const;

  // Trained parameters that the loss did not depend on, "2.weight, 2.bias", of the first kind of step with any.
  const std::string& unused() const { return unused_; }
  // Records such names. Throws Error(kRun) with comm.unused: error.
  void note_unused(const std::string& names);

  // null if ranks do not compare their graphs
  TracedGraphs* traced_graphs() { return traced_graphs_ ? &*traced_graphs_ : nullptr; }
  // Compares the graphs that hooks traced, on devices whose ranks all run one graph. Collective; call after an
  // optimizer step or an evaluation. Throws Error(kRun) if they differ.
  void compare_graphs();

  // Number of steps that had their plan already, without using the plan cache.
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
  void begin_recording();
  // Whether a hook's trace is replayed instead of recorded again.
  bool replays(bool training) const { return traces_once(parts_.builder.recipe()) && parts_.builder.varies(training); }
  void keep_trace(HeldStep& held);
  void use_trace(HeldStep& held, const data::Batch* batch);

  const EngineParts& parts_;
  std::optional<TracedGraphs> traced_graphs_;
  std::string unused_;
  std::deque<HeldStep> held_;  // elements keep their addresses
  std::array<StepBuilder::Recorded, 2> recordings_;
  StepBuilder::Recorded* recorded_ = recordings_.data();
  int64_t replayed_ = 0;
  bool lacked_batch_ = false;
};

}  // namespace runner::train
