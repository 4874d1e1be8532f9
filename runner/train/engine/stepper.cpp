#include "runner/train/engine/stepper.h"

#include "backends/runtime/spans.h"
#include "runner/train/engine/reduction.h"
#include "runner/train/step/declared_step.h"
#include "runner/train/step/digest.h"
#include "runner/train/step/loss_scaler.h"
#include "runner/train/step/rank_reduction.h"
#include "schema/base/error.h"
#include "schema/base/system_limits.h"

namespace runner::train {

Stepper::Stepper(const EngineParts& parts, LoaderMarks& marks)
    : parts_(parts), marks_(marks), recipe_(parts.builder.recipe()) {}

bool Stepper::must_agree(const StepResult& result) const {
  if (is_local()) return result.done;
  return result.done || parts_.ranks == nullptr || recipe_.sync_each_batch || result.next.begins_epoch() ||
         result.batches % kBatchesOfPart == 0;
}

SharedStep Stepper::run_batches(BatchFeed& batches, const ScheduleRates& rates, StepResult& result) {
  SharedStep step;
  for (;;) {
    const data::Batch& batch = batches.next();
    ++parts_.counters.batches;
    in_batch(parts_.steps.place_of(batch, /*training=*/true), [&] { batches.throw_failure(); });
    marks_.begin_batch(/*training=*/true);
    result.done = parts_.accumulation.ends(batch, result.batches);
    result.add_batch(batch);
    factored_ = parts_.arrays.begin_batch(batch.largest, factors_gradients());
    if (result.done && parts_.clock) {
      parts_.steps.wait_for_batch();
      parts_.clock->begin_step(rates);
    }
    if (is_local() || batch.weighs() || parts_.builder.exchanges_in_forward()) {
      int64_t left = batch.size;
      parts_.accumulation.each_micro_batch(batch, [&](const data::Batch& part) {
        const bool begins_batch = left == batch.size;
        left -= part.size;
        step = run_part(part, {.staged = begins_batch ? batches.staged() : 0,
                               .ends_step = result.done && left == 0,
                               .ends_batch = left == 0});
        return true;
      });
    } else {
      parts_.steps.record(batch, /*training=*/true);
    }
    if (batch.last_of_epoch) marks_.end_batches(/*training=*/true);
    if (must_agree(result)) return step;
    if (step) batches.stage_next(*step->executable, parts_.accumulation);
  }
}

SharedStep Stepper::run_part(const data::Batch& part, const MicroBatchPlace& place) {
  const bool last = place.ends_step;
  const bool completes = last && steps_alone();
  StepShape shape = shape_of(part.shape(), !parts_.arrays.holds_any_gradients(), completes);
  shape.counted = parts_.builder.counted_in(part);
  SharedStep step = training_step(shape, &part, last && !completes);
  StepSubmission arguments =
      parts_.steps.arguments(part, parts_.steps.recording(/*training=*/true),
                             last ? TracedUntil::kUpdate : TracedUntil::kBackward, step->rule_numbers);
  arguments.staged = place.staged;
  arguments.states = parts_.arrays.states_of_step(last && !completes && factored_ != nullptr);
  if (last && !completes) arguments.signals = begin_signals();
  if (place.ends_batch) arguments.info.reduced = reduced_after_batch(last);
  const BatchPlace batch = parts_.steps.place_of(part, /*training=*/true);
  if (completes) parts_.in_flight.begin_update();
  if (parts_.builder.exchanges_in_forward()) parts_.executor.begin_exchange(/*again=*/false);
  const backends::Ticket ticket = in_batch(batch, [&] {
    return parts_.executor.submit(completes ? "forward, backward, update" : "forward, backward", *step, arguments);
  });
  parts_.in_flight.set_submitted({ticket, step, parts_.steps.recording(/*training=*/true), completes, batch});
  parts_.arrays.hold(steps_alone() ? GradientState::kGlobalSum : GradientState::kLocalSum);
  return step;
}

void Stepper::run_and_reduce(BatchFeed& batches, const ScheduleRates& rates, StepResult& result) {
  const SharedStep last = run_batches(batches, rates, result);
  if (result.done && !parts_.arrays.holds_any_gradients()) parts_.arrays.clear_step(factored_);
  if (result.done) reduce_in_buckets();
  if (last) batches.stage_next(*last->executable, parts_.accumulation);
  parts_.in_flight.finish();
  if (OverlappedReducer* const reducer = parts_.arrays.overlapped_reducer(); reducer != nullptr && result.done)
    reducer->finish();
}

SharedStep Stepper::run_batches_together(BatchFeed& batches, const ScheduleRates& rates, StepResult& result,
                                         const std::function<bool()>& asked_to_stop) {
  try {
    run_and_reduce(batches, rates, result);
  } catch (const std::exception& error) {
    if (parts_.arrays.overlapped_reducer() != nullptr) parts_.arrays.overlapped_reducer()->abandon(error_of(error));
    throw;
  }
  if (parts_.builder.varies(true))
    add_to(parts_.metrics.step,
           merged(std::exchange(parts_.metrics.batches, {}), *parts_.ranks, parts_.executor.site("metrics")));
  const SharedStep& step = result.done ? update_step(factored_) : communication_step();
  if (result.done) parts_.in_flight.begin_update_of_all();  // after the barrier any rank may have begun to update
  result.interrupted = parts_.ranks->any(asked_to_stop && asked_to_stop(), parts_.executor.site("gradients"));
  if (step) update_together(*step, result.done);
  return step;
}

// Runs the step that adds up the gradients of all ranks and updates, or that only shows a device model how PyTorch
// would communicate within an optimizer step.
void Stepper::update_together(const CompiledStep& step, bool ends_step) {
  const SumSource source = source_of_sums();
  StepSubmission end = parts_.arguments.of_update();
  if (ends_step && parts_.arrays.reducer() != nullptr) end.after = parts_.arrays.reducer()->reduced();
  end.states = parts_.arrays.states_of_reduction(source, ends_step && reads_factored(factored_));
  parts_.executor.begin_exchange(/*again=*/false);
  if (ends_step && source == SumSource::kFoldedRows) parts_.arrays.fold_rows();
  parts_.executor.execute("update", step, end, backends::SpanKind::kOptimizer);
  if (!ends_step) return;
  parts_.arrays.round_shard();
  parts_.ranks->barrier(parts_.executor.site("the update"));
}

std::span<const backends::ReducedBytes> Stepper::reduced_after_batch(bool ends_step) const {
  const GradientBuckets* const buckets = parts_.arrays.buckets();
  const bool reduces = (ends_step || recipe_.sync_each_batch) && !(ends_step && steps_alone());
  return reduces && buckets != nullptr ? buckets->reduced() : std::span<const backends::ReducedBytes>();
}

std::span<const backends::Signal> Stepper::begin_signals() {
  if (parts_.arrays.reducer() != nullptr) return parts_.arrays.reducer()->begin_signals(factored_);
  if (parts_.arrays.overlapped_reducer() != nullptr)
    return parts_.arrays.overlapped_reducer()->begin(parts_.counters.steps + 1);
  return {};
}

// Starts while the device is still computing the last batch of the optimizer step.
void Stepper::reduce_in_buckets() {
  if (BucketReducer* const reducer = parts_.arrays.reducer()) {
    if (!reducer->has_signalled()) reducer->signal_all(factored_);
    parts_.arrays.reduce(factored_);
  }
  if (OverlappedReducer* const reducer = parts_.arrays.overlapped_reducer();
      reducer != nullptr && !reducer->has_begun())
    reducer->begin_complete(parts_.counters.steps + 1);
}

SumSource Stepper::source_of_sums() const {
  return parts_.arrays.reducer() != nullptr ? SumSource::kBuckets : parts_.arrays.sum_source();
}

SharedStep Stepper::training_step(const StepShape& shape, const data::Batch* batch, bool closes_step) {
  const FactoredLayout* const factored = batch != nullptr ? factored_ : factored_layout(shape.batch);
  return parts_.steps.find({.training = true,
                            .labelled = true,
                            .shape = shape,
                            .closes_step = closes_step,
                            .factored = closes_step ? factored : nullptr},
                           batch);
}

// The number of batches per optimizer step matters only with loss scaling.
StepShape Stepper::shape_of(data::BatchShape batch, bool first, bool last) const {
  return {batch.samples, first, last, first_scale(recipe_) ? parts_.accumulation.batches_per_step : 1, batch.length};
}

const SharedStep& Stepper::update_step(const FactoredLayout* factored) {
  if (!reads_factored(factored)) factored = nullptr;
  SharedStep& step = update_steps_[factored];
  if (!step) {
    parts_.executor.check_halt();
    const FactoredLayout none;
    const backends::Program end = record_reduction(parts_.builder, *parts_.arrays.shard(),
                                                   factored != nullptr ? *factored : none, source_of_sums());
    step = compiled_step(
        parts_.device.compile(end, parts_.user.of_update(/*are_reduced=*/parts_.arrays.buckets() != nullptr)));
  }
  return step;
}

// Buckets are shown to the device model with the batch (MicroBatchPlace::reduces).
const SharedStep& Stepper::communication_step() {
  const bool is_shown =
      recipe_.sync_each_batch && parts_.device.streams() != nullptr && !may_reduce_in_buckets(recipe_);
  if (is_shown && !communication_step_) {
    communication_step_ = compiled_step(parts_.device.compile(
        parts_.builder.begin_reduction(*parts_.arrays.shard(), source_of_sums()), parts_.user.of_communication()));
  }
  return communication_step_;
}

void Stepper::advance(BatchFeed& batches, const ScheduleRates& rates, StepResult& result,
                      const std::function<bool()>& asked_to_stop) {
  parts_.arguments.set_rates(rates, parts_.accumulation.batches_per_step);
  if (result.batches == 0) parts_.arrays.hold(GradientState::kNothing);
  parts_.in_flight.begin();
  const SharedStep step =
      steps_alone() ? run_batches(batches, rates, result) : run_batches_together(batches, rates, result, asked_to_stop);
  if (steps_alone() && step) batches.stage_next(*step->executable, parts_.accumulation);
  if (result.done) end_step(step, rates, result);
}

bool Stepper::may_resolve_late() const {
  return parts_.device.runs_asynchronously() && parts_.ranks == nullptr && !parts_.clock &&
         recipe_.train.on_nan == schema::OnNan::kStop;
}

StepResult Stepper::run(data::Loader& loader, const ScheduleRates& rates) {
  StepResult result;
  BatchFeed batches = feed(loader);
  while (!result.done) advance(batches, rates, result);
  resolve(result);
  return result;
}

void Stepper::end_step(const SharedStep& step, const ScheduleRates& rates, StepResult& result) {
  parts_.arrays.hold(GradientState::kNothing);
  // With device-side counters, a rank that has read them knows the rate, and others only a table of rates.
  result.call_digest = mixed(parts_.clock != nullptr ? 0 : rates.digest(), parts_.steps.loss_shape_digest());
  result.lr = parts_.builder.optimizers().lr * rates.factor;
  result.finite = true;
  result.applied = !parts_.clock;
  parts_.in_flight.end(step, rates, result);
}

void Stepper::resolve(StepResult& newest) {
  parts_.in_flight.finish();
  if (!parts_.in_flight.has_ended()) return;
  parts_.in_flight.resolve(newest);
  // Finding the cause runs other Programs, which overwrite the outputs, so they are read first.
  if (parts_.clock && (parts_.clock->is_full() || !newest.finite)) read_counters(newest);
}

void Stepper::read_counters() {
  parts_.in_flight.finish();
  if (pending() == 0) return;
  parts_.in_flight.read_outcome();
  parts_.clock->read_counters();
}

void Stepper::read_counters(StepResult& newest) {
  read_counters();
  parts_.in_flight.set_outcome(newest);
}

}  // namespace runner::train
