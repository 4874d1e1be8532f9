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

// Maximum number of batches after which ranks agree whether to stop. An interrupt then takes effect soon even in a long
// optimizer step, and the overhead is negligible.
inline constexpr int64_t kBatchesOfPart = 8;

class Stepper {
 public:
  // Both must outlive the object.
  Stepper(const EngineParts& parts, LoaderMarks& marks);

  // Makes the argument of advance().
  BatchFeed feed(data::Loader& loader, std::function<bool()> give_up = {}) {
    return {loader, std::move(give_up), parts_.device, parts_.encoding};
  }
  // Continues an optimizer step: takes batches until all ranks can save a checkpoint together. That is at the end of
  // the optimizer step, after its update. It is also at the end of an epoch and every kBatchesOfPart batches; with
  // sync_each_batch or a single rank, after every batch. Until its end, each rank has the sum over its own batches. An
  // optimizer step that is not finite counts only with train.on_nan: skip. `rates`: for the next schedule step after
  // all pending ones. `asked_to_stop`: whether this rank was asked to stop; ranks then share it
  // (StepResult::interrupted). May return while the device is still running. A finished optimizer step counts as finite
  // until resolve().
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

  StepShape shape_of(data::BatchShape batch, bool first, bool last) const;
  // Returns a training step. `batch`: its batch, or null if it is not known yet.
  SharedStep training_step(const StepShape& shape, const data::Batch* batch, bool closes_step = false);
  // Returns the step at the end of an optimizer step, in which ranks add up their gradients and update. `factored`:
  // layout of factored gradients, or null if there are none.
  const SharedStep& update_step(const FactoredLayout* factored);
  // Returns the step that shows a GPU model how DistributedDataParallel reduces within an optimizer step
  // (sync_each_batch with comm.hook); null if there is nothing to show.
  const SharedStep& communication_step();
  // Returns the layout of factored gradients for a batch whose largest part on any rank has `largest` samples; null if
  // there are none. Gradients of several batches accumulate in their arrays.
  const FactoredLayout* factored_layout(int64_t largest) {
    return factors_gradients() ? parts_.arrays.factored_layout(largest) : nullptr;
  }

  // Returns what GPUs that share nothing reduce after a batch. `ends_step`: it is the last of its optimizer step.
  std::span<const backends::ReducedBytes> reduced_after_batch(bool ends_step) const;

 private:
  // Takes batches until ranks must agree. Returns the last step, whose outputs can be read if it ended the optimizer
  // step; null if the rank had no batch.
  SharedStep run_batches(BatchFeed& batches, const ScheduleRates& rates, StepResult& result);
  // Properties of a micro-batch.
  struct MicroBatchPlace {
    uint64_t staged = 0;  // BatchFeed::staged(), or 0
    bool ends_step = false;
    bool ends_batch = false;
  };
  SharedStep run_part(const data::Batch& part, const MicroBatchPlace& place);
  // Calls run_batches(). At the end of the optimizer step, starts to add up gradients in buckets.
  void run_and_reduce(BatchFeed& batches, const ScheduleRates& rates, StepResult& result);
  // Calls run_batches() on each rank. At the end of the optimizer step, runs the step that adds up the gradients of all
  // ranks and updates.
  SharedStep run_batches_together(BatchFeed& batches, const ScheduleRates& rates, StepResult& result,
                                  const std::function<bool()>& asked_to_stop);
  void update_together(const CompiledStep& step, bool ends_step);
  // For the micro-batch that ends the optimizer step.
  std::span<const backends::Signal> begin_signals();
  void reduce_in_buckets();
  SumSource source_of_sums() const;
  // Whether the update reads factored gradients. Buckets have summed them before.
  bool reads_factored(const FactoredLayout* factored) const {
    return factored != nullptr && parts_.arrays.reducer() == nullptr;
  }
  void end_step(const SharedStep& step, const ScheduleRates& rates, StepResult& result);
  bool factors_gradients() const { return parts_.accumulation.batches_per_step == 1; }
  bool must_agree(const StepResult& result) const;

  const EngineParts& parts_;
  LoaderMarks& marks_;
  const schema::Recipe& recipe_;
  const FactoredLayout* factored_ = nullptr;  // of the current batch; null if gradients are in their arrays
  std::map<const FactoredLayout*, SharedStep> update_steps_;
  SharedStep communication_step_;
};

}  // namespace runner::train
