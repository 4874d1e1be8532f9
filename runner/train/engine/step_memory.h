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

  // Compiles a training step before its first use, to find mismatches before a run begins.
  void prepare(const StepShape& shape);
  // On lazy devices, before arrays are allocated: compiles all kinds of training steps, and the evaluation step for
  // batches of `evaluation_batch` samples (0: none), and checks that each fits into device memory.
  void check_graphs_fit(const data::DataPlan& plan, int64_t evaluation_batch);
  // The kinds of training steps in the first and in the last optimizer step of an epoch, on the rank with the largest
  // batches.
  struct TrainingStep {
    StepShape shape;
    bool closes_step;  // with several ranks: an update of all ranks follows
    bool operator==(const TrainingStep&) const = default;
  };
  std::vector<TrainingStep> training_steps(const data::DataPlan& plan) const;
  // Returns the peak memory of the rank with the largest batches, including arrays: during epochs, and during
  // evaluations between them, if there are any. Compiles their steps.
  PeakMemory peak(const data::DataPlan& plan, const std::optional<data::DataPlan>& evaluation);

 private:
  bool may_read_values() const;
  // Returns the training step for a micro-batch of `batch` samples. `first`, `last`: its position in the optimizer
  // step.
  TrainingStep step_of(int64_t batch, bool first, bool last) const;
  std::shared_ptr<backends::Executable> compiled(const TrainingStep& step);
  // Executables on the rank with the largest batches, in order: the first and the last ones of an epoch or evaluation,
  // which represent those in between.
  using Executables = std::vector<std::shared_ptr<backends::Executable>>;
  Executables steps_of_epoch(const data::DataPlan& plan);
  // `batches`: those of one optimizer step.
  void add_step(const data::DataPlan& plan, const data::OptimizerStep& batches, Executables& steps);
  Executables steps_of_evaluation(const data::DataPlan& plan);

  const EngineParts& parts_;
  Stepper& stepper_;
  Forward& forward_;
};

}  // namespace runner::train
