// Memory that the steps of a run need in addition to the arrays, and whether the device has that much. Compiles the
// steps in question. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "backends/device_model/modelled_device.h"
#include "runner/data/plan.h"
#include "runner/train/engine/device_arrays.h"
#include "runner/train/engine/engine_parts.h"
#include "runner/train/engine/executor.h"
#include "runner/train/engine/forward.h"
#include "runner/train/engine/memory_use.h"
#include "runner/train/engine/stepper.h"
#include "runner/train/step/declared_step.h"

namespace runner::train {

class StepMemory {
 public:
  // All arguments must outlive the object.
  StepMemory(const EngineParts& parts, Stepper& stepper, Forward& forward)
      : parts_(parts), stepper_(stepper), forward_(forward) {}

  // Compiles a training step before its first use, to find mismatches and too little memory before a run begins.
  void prepare(const StepShape& shape);
  // Records the forward passes of the first and the last batch of an epoch on each rank, of models with batch
  // statistics only: such a model may refuse a batch because of its size. Not for a hook that may read values.
  void check_batches(const data::DataPlan& plan);
  // On lazy devices, before arrays are allocated: compiles all kinds of training steps, and the evaluation step for
  // batches of `evaluation_batch` samples (0: none), and checks that each fits into device memory.
  void check_graphs_fit(const data::DataPlan& plan, int64_t evaluation_batch);
  // The kinds of training steps in the first and in the last optimizer step of an epoch, on the rank with the largest
  // batches.
  struct TrainingStep {
    StepShape shape;
    bool closes_step;      // with several ranks: an update of all ranks follows
    int64_t per_step = 0;  // submissions of this kind in the first optimizer step of an epoch
    bool is_like(const TrainingStep& other) const { return shape == other.shape && closes_step == other.closes_step; }
  };
  std::vector<TrainingStep> training_steps(const data::DataPlan& plan) const;
  // Returns the peak memory of the rank with the largest batches, including arrays: during epochs, and during
  // evaluations between them, if there are any. Compiles their steps.
  PeakMemory peak(const data::DataPlan& plan, const std::optional<data::DataPlan>& evaluation);
  // Returns the submissions of the first optimizer step of an epoch, in order, on the rank with the largest batches.
  // Compiles its steps.
  std::vector<backends::PlannedSubmission> submissions(const data::DataPlan& plan);

 private:
  bool may_read_values() const;
  // Adds the micro-batches of step `step` of an epoch, on all ranks.
  void add_micro_batches(const data::DataPlan& plan, int64_t step, std::vector<StepShape>& batches) const;
  // Returns the training step for a micro-batch of `batch` samples. `first`, `last`: its position in the optimizer
  // step.
  TrainingStep step_of(int64_t batch, bool first, bool last) const;
  std::shared_ptr<backends::Executable> compiled(const TrainingStep& step);
  // Submissions on the rank with the largest batches, in order.
  using Submissions = std::vector<backends::PlannedSubmission>;
  // The first and the last ones of an epoch or evaluation, which represent those in between.
  Submissions steps_of_epoch(const data::DataPlan& plan);
  Submissions steps_of_evaluation(const data::DataPlan& plan);
  // Numbers from 0 to `count` - 1.
  using Choice = std::vector<int64_t> (*)(int64_t count);
  // `choice`: batches of the optimizer step, and micro-batches of a batch, to add.
  void add_step(const data::DataPlan& plan, const data::OptimizerStep& optimizer_step, Choice choice,
                Submissions& steps);

  const EngineParts& parts_;
  Stepper& stepper_;
  Forward& forward_;
};

}  // namespace runner::train
