// Builds the submission of a step: arrays, the batch, random keys, scalars of updates, and what the user's code does in
// it.
//
// Submissions refer to memory of this object, of the batch and of the recording. Each call invalidates those of earlier
// calls, so none may be made while the device is still using them. Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/exec/backend.h"
#include "runner/data/encoding.h"
#include "runner/data/loader.h"
#include "runner/train/engine/device_arrays.h"
#include "runner/train/engine/engine_parts.h"
#include "runner/train/engine/executor.h"
#include "runner/train/engine/update_clock.h"
#include "runner/train/engine/user_work.h"
#include "runner/train/step/optimizer_step.h"
#include "runner/train/step/step_builder.h"
#include "runner/train/step/step_hooks.h"

namespace runner::train {

class TracedRegion;  // traced_region.h

// The batch inputs of a Program that come from the loader: those of the model, then kLabels to kSampleIds.
class LoadedInputs {
 public:
  LoadedInputs(const data::Batch& batch, size_t model_inputs);
  std::span<const std::span<const std::byte>> all() const { return std::span(bytes_).first(count_); }

 private:
  std::array<std::span<const std::byte>, data::kMaxInputs + kSampleIds + 1> bytes_;
  size_t count_;
};

class StepArguments {
 public:
  explicit StepArguments(const EngineParts& parts);

  // Sets the rates of updates and the batches per optimizer step from now on.
  void set_rates(const ScheduleRates& rates, int64_t accumulation);
  // Sets arbitrary rates for a step that updates nothing, if none are set yet: every Program has the scalars.
  void set_any_rates();
  // Finds the states that no step has created yet. Call before updates are counted.

  // `recorded`: the recording that the step was found by, for its scalars and lines, or null. `rule_numbers`: scalars
  // of the hook's update rules in the step, if it updates.
  StepSubmission of_step(const data::Batch& batch, const StepBuilder::Recorded* recorded,
                         TracedUntil traced = TracedUntil::kForward,
                         std::span<const backends::TracedScalar> rule_numbers = {});
  // `batch`: null if the region has none.
  StepSubmission of_region(const TracedRegion& region, const data::Batch* batch);
  // Returns the submission of the step that combines the gradients of all ranks.
  StepSubmission of_update() { return {inputs(nullptr, nullptr, {}), parts_.user.of_update()}; }

 private:
  backends::Submission inputs(const data::Batch* batch, const backends::SourceLines* lines,
                              std::span<const std::vector<std::byte>> given);

  const EngineParts& parts_;
  int64_t accumulation_ = 1;
  std::vector<double> scalars_, step_scalars_;  // of an update; the second with those of a hook's recording
  std::vector<const std::byte*> batch_inputs_;  // of the model, by BatchInput, then those of a traced region
  std::array<int64_t, 2> random_key_{}, draw_key_{};
};

}  // namespace runner::train
