// Runs optimizer steps: takes batches, submits their training steps, and adds up the gradients of all ranks.
//
// After the first optimizer step of each shape, a declared model trained by one process allocates nothing. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>

#include "backends/device_model/modelled_device.h"
#include "backends/dist/process_group.h"
#include "runner/data/loader.h"
#include "runner/train/engine/batch_feed.h"
#include "runner/train/engine/device_arrays.h"
#include "runner/train/engine/engine_parts.h"
#include "runner/train/engine/executor.h"
#include "runner/train/engine/in_flight_step.h"
#include "runner/train/engine/loader_marks.h"
#include "runner/train/engine/steps.h"
#include "runner/train/engine/update_clock.h"
#include "runner/train/step/counters.h"
#include "runner/train/step/declared_step.h"
#include "runner/train/step/optimizer_step.h"
#include "runner/train/step/step_builder.h"

namespace runner::train {

// Maximum number of batches of an optimizer step between all-reduces. An interrupt then takes effect soon even in a
// long optimizer step, and the overhead is negligible.
inline constexpr int64_t kBatchesOfPart = 8;

// Whether ranks update separate weights between averages (train.local_sgd). A step then uses only the rank's own
// batches, and checkpoints and evaluations need an average first. `ranks`: null for a single process.
inline bool trains_locally(const schema::Recipe& recipe, const backends::ProcessGroup* ranks) {
  return ranks != nullptr && recipe.train.local_sgd.has_value();
}

class Stepper {
 public:
  explicit Stepper(const EngineParts& parts);

  // Makes the argument of advance().
  BatchFeed feed(data::Loader& loader, std::function<bool()> give_up = {}) {
    return {loader, std::move(give_up), parts_.device, parts_.encoding};
  }
  // Continues an optimizer step: takes batches until gradients and sums are those of all ranks and can be saved in a
  // checkpoint. That is at the end of the optimizer step, after its update. It is also at the end of an epoch and every
  // kBatchesOfPart batches; with sync_each_batch or a single rank, after every batch. An optimizer step that is not
  // finite counts only with train.on_nan: skip. `rates`: for the next schedule step after all pending ones.
  // `asked_to_stop`: whether this rank was asked to stop; ranks share it at each all-reduce
  // (StepResult::interrupted). May return while the device is still running. A finished optimizer step counts as
  // finite until resolve().
  void advance(BatchFeed& batches, const ScheduleRates& rates, StepResult& result,
               const std::function<bool()>& asked_to_stop = {});
  // Waits for the last optimizer step and sets how it ended. Throws its error.
  void resolve(StepResult& newest);
  // Runs a whole optimizer step.
  StepResult run(data::Loader& loader, const ScheduleRates& rates);
  // After advance() or resolve() has thrown: whether the failed optimizer step may have updated some arrays.
  bool may_be_half_updated() const { return parts_.in_flight.may_be_half_updated(); }
  // Whether resolve() may be called as late as after the first batch of the next optimizer step has been recorded. If
  // the earlier step was not finite, the next one then throws before it computes anything, and resolve() still reports
  // it.
  bool may_resolve_late() const;
  bool is_local() const { return trains_locally(recipe_, parts_.ranks); }
  // Whether this process makes an optimizer step from its own batches only.
  bool steps_alone() const { return parts_.ranks == nullptr || is_local(); }

  // With device-side counters (update_clock.h): number of optimizer steps whose outcome the host does not know. The
  // counters lack their updates and schedule steps.
  int64_t pending() const { return parts_.clock != nullptr ? parts_.clock->pending() : 0; }
  // Reads the device-side counters. `newest`: the last optimizer step, whose outcome is set.
  void read_counters();
  void read_counters(StepResult& newest);

  // ---- compiled steps ----

  StepShape shape_of(int64_t batch, bool first, bool last) const;
  // Returns a training step. `batch`: its batch, or null if it is not known yet.
  SharedStep training_step(const StepShape& shape, const data::Batch* batch, bool closes_step = false);
  // A step in which ranks add up their gradients: within an optimizer step, or at its end.
  struct Reduction {
    bool ends_step = false;
    SumSource source = SumSource::kRows;
    const FactoredLayout* factored = nullptr;            // layout of factored gradients to read; null if there are none
    auto operator<=>(const Reduction&) const = default;  // NOLINT(modernize-use-nullptr): it reports the 0 of <=>
  };
  const SharedStep& reduction_step(const Reduction& kind);
  // Return the kind of reduction at the end of an optimizer step, and before it.
  Reduction end_of_step(const FactoredLayout* factored) const;
  Reduction part_of_step(const FactoredLayout* factored) const;
  // Returns the layout of factored gradients for a batch whose largest part on any rank has `largest` samples; null if
  // there are none. Gradients of several batches accumulate in their arrays.
  const FactoredLayout* factored_layout(int64_t largest) {
    return factors_gradients() ? parts_.arrays.factored_layout(largest) : nullptr;
  }

 private:
  // Takes batches until the gradients of all ranks must be added up. Returns the last step, whose outputs can be read
  // if it ended the optimizer step; null if the rank had no batch.
  SharedStep run_batches(BatchFeed& batches, const ScheduleRates& rates, StepResult& result);
  // Properties of a micro-batch.
  struct MicroBatchPlace {
    uint64_t staged = 0;  // BatchFeed::staged(), or 0
    bool ends_step = false;
    bool reduces = false;  // GPUs that share nothing reduce their gradients after it
  };
  SharedStep run_part(const data::Batch& part, const MicroBatchPlace& place);
  // Calls run_batches() on each rank, then runs the step that adds up the results of all ranks and, at the end of the
  // optimizer step, updates.
  SharedStep run_batches_together(BatchFeed& batches, const ScheduleRates& rates, StepResult& result,
                                  const std::function<bool()>& asked_to_stop);
  void reduce_in_buckets();
  void keep_sum_of_part(const CompiledStep& part);
  void end_step(const SharedStep& step, const ScheduleRates& rates, StepResult& result);
  bool factors_gradients() const { return parts_.accumulation.batches_per_step == 1; }
  bool is_reduction_due(const StepResult& result) const;

  const EngineParts& parts_;
  const schema::Recipe& recipe_;
  const FactoredLayout* factored_ = nullptr;  // of the current batch; null if gradients are in their arrays
  std::map<Reduction, SharedStep> reduction_steps_;
};

}  // namespace runner::train
