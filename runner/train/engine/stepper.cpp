#include "runner/train/engine/stepper.h"

#include <array>

#include "backends/runtime/spans.h"
#include "runner/train/engine/declared_step.h"
#include "runner/train/engine/digest.h"
#include "runner/train/engine/loss_scaler.h"
#include "runner/train/engine/rank_reduction.h"
#include "runner/train/engine/reduction.h"

namespace runner::train {

Stepper::Stepper(const Sources& from) : from_(from), recipe_(from.builder.recipe()) {}

// A single rank always has the sums.
bool Stepper::sums_behind(const TrainingWindow& window) const {
  if (is_local()) return window.done;
  return window.done || from_.ranks == nullptr || recipe_.sync_each_batch || window.next.begins_epoch() ||
         window.batches % kBatchesOfPart == 0;
}

SharedStep Stepper::run_batches(BatchFeed& batches, const WindowRates& rates, TrainingWindow& window) {
  SharedStep step;
  for (;;) {
    const data::Batch& batch = batches.next();
    ++from_.counters.batches;
    in_batch(from_.steps.place_of(batch, /*training=*/true), [&] { batches.throw_failure(); });
    from_.marks.begin_batch(/*training=*/true);
    window.done = from_.parts.ends(batch, window.batches);
    take_in(batch, window);
    factored_ = from_.arrays.begin_batch(batch.largest, factors_gradients());
    if (window.done && from_.clock) {
      from_.steps.wait_for_batch();
      from_.clock->begin_window(rates);
    }
    if (is_local() || batch.weighs()) {
      for (int64_t first = 0; first < batch.size; first += from_.parts.at_once(batch.size)) {
        const data::Batch part = batch.part(first, from_.parts.at_once(batch.size - first));
        const bool ends_batch = first + part.size == batch.size;
        step = run_part(part, {.staged = first == 0 ? batches.staged() : 0,
                               .ends_window = window.done && ends_batch,
                               .reduces = (window.done || recipe_.sync_each_batch) && ends_batch});
      }
    } else {
      from_.steps.record(batch, /*training=*/true);
    }
    if (batch.last_of_epoch) from_.marks.end_batches(/*training=*/true);
    if (sums_behind(window)) return step;
    if (step) batches.stage_next(*step->executable, from_.parts);
  }
}

SharedStep Stepper::run_part(const data::Batch& part, const PartOfWindow& place) {
  const bool last = place.ends_window;
  const bool completes = last && steps_alone();
  SharedStep step =
      training_step(shape_of(part.size, !from_.arrays.holds_any_gradients(), completes), &part, last && !completes);
  StepSubmission arguments =
      from_.steps.arguments(part, from_.steps.recording(/*training=*/true),
                            last ? TracedUntil::kUpdate : TracedUntil::kBackward, step->rule_numbers);
  arguments.staged = place.staged;
  arguments.states = from_.arrays.states_of_step(last && !completes && factored_ != nullptr);
  if (last && !completes && from_.arrays.reducer() != nullptr)
    arguments.signals = from_.arrays.reducer()->begin_signals(factored_);
  if (place.reduces && !completes && from_.arrays.buckets() != nullptr)
    arguments.info.reduced = from_.arrays.buckets()->reduced();
  const BatchPlace batch = from_.steps.place_of(part, /*training=*/true);
  if (completes) from_.in_flight.begin_update();
  const backends::Ticket ticket = in_batch(batch, [&] {
    return from_.executor.submit(completes ? "forward, backward, update" : "forward, backward", *step, arguments);
  });
  from_.in_flight.set_submitted({ticket, step, from_.steps.recording(/*training=*/true), completes, batch});
  from_.arrays.hold(steps_alone() ? Held::kSum : Held::kShare);
  return step;
}

SharedStep Stepper::run_batches_together(BatchFeed& batches, const WindowRates& rates, TrainingWindow& window,
                                         const std::function<bool()>& asked_to_stop) {
  const SharedStep last = run_batches(batches, rates, window);
  if (!from_.arrays.holds_any_gradients()) from_.arrays.clear_window(factored_);
  const Reduction reduction = window.done ? end_of_window(factored_) : part_of_window(factored_);
  const bool reduces = window.done && from_.arrays.reducer() != nullptr;
  if (reduces) reduce_in_buckets();
  if (last) batches.stage_next(*last->executable, from_.parts);
  from_.in_flight.wait();
  from_.in_flight.throw_failure();
  if (from_.builder.varies(true))
    add_to(from_.metrics.window,
           merged(std::exchange(from_.metrics.batches, {}), *from_.ranks, from_.executor.site("metrics")));
  const SharedStep& step = reduction_step(reduction);
  StepSubmission end = from_.arguments.of_window_end();
  if (reduces) end.after = from_.arrays.reducer()->reduced();
  end.states = from_.arrays.states_of_window(reduction.source, reduction.factored != nullptr);
  from_.executor.begin_exchange(/*again=*/false);
  if (window.done) from_.in_flight.begin_update_of_all();  // after the barrier any rank may have begun to update
  window.interrupted = from_.ranks->any(asked_to_stop && asked_to_stop(), from_.executor.site("gradients"));
  if (reduction.source == SumSource::kFoldedRows) from_.arrays.fold_rows();
  from_.executor.execute("update", *step, end, backends::SpanKind::kOptimizer);
  if (!window.done) from_.arrays.give_sums_to_rank_0();
  if (window.done) from_.arrays.round_share();
  from_.ranks->barrier(from_.executor.site("the update"));
  if (!window.done && from_.ranks->rank() == 0) keep_sum_of_part(*step);
  from_.arrays.hold(from_.ranks->rank() == 0 ? Held::kSum : Held::kNothing);
  return step;
}

// Starts while the device is still computing the last batch of the optimizer step.
void Stepper::reduce_in_buckets() {
  if (!from_.arrays.reducer()->has_signalled()) from_.arrays.reducer()->signal_all(factored_);
  from_.arrays.reduce(factored_);
}

void Stepper::keep_sum_of_part(const CompiledStep& part) {
  const backends::ModelPause pause(from_.device);
  std::array<double, 2> sums{};
  from_.device.read_output(*part.executable, kPartSum, std::as_writable_bytes(std::span(sums)));
  from_.arrays.write(from_.arrays.layout().find(Role::kSum, 0, kWindowSum), std::as_bytes(std::span(sums)));
}

Stepper::Reduction Stepper::end_of_window(const FactoredLayout* factored) const {
  if (from_.arrays.reducer() != nullptr) return {.ends_window = true, .source = SumSource::kBuckets};
  return {.ends_window = true, .source = from_.arrays.sum_source(), .factored = factored};
}

Stepper::Reduction Stepper::part_of_window(const FactoredLayout* factored) const {
  return {.source = from_.arrays.sum_source(), .factored = factored};
}

SharedStep Stepper::training_step(const StepShape& shape, const data::Batch* batch, bool closes_window) {
  const FactoredLayout* const factored = batch != nullptr ? factored_ : this->factored_layout(shape.batch);
  return from_.steps.find({.training = true,
                           .labelled = true,
                           .shape = shape,
                           .closes_window = closes_window,
                           .factored = closes_window ? factored : nullptr},
                          batch);
}

// The number of batches per optimizer step matters only with loss scaling.
StepShape Stepper::shape_of(int64_t batch, bool first, bool last) const {
  return {batch, first, last, first_scale(recipe_) ? from_.parts.accumulation : 1};
}

const SharedStep& Stepper::reduction_step(const Reduction& kind) {
  SharedStep& step = reduction_steps_[kind];
  if (!step) {
    from_.executor.ask_halt();
    const FactoredLayout none;
    const backends::Program end = complete_window(from_.builder, *from_.arrays.shares(), kind.ends_window,
                                                  kind.factored != nullptr ? *kind.factored : none, kind.source);
    const bool are_reduced = kind.ends_window && from_.arrays.buckets() != nullptr;
    step = compiled_step(from_.device.compile(end, from_.user.of_window_end(kind.ends_window, are_reduced)));
  }
  return step;
}

void Stepper::advance(BatchFeed& batches, const WindowRates& rates, TrainingWindow& window,
                      const std::function<bool()>& asked_to_stop) {
  from_.arguments.set_rates(rates, from_.parts.accumulation);
  if (window.batches == 0) from_.arrays.hold(Held::kNothing);
  from_.in_flight.begin();
  const SharedStep step =
      steps_alone() ? run_batches(batches, rates, window) : run_batches_together(batches, rates, window, asked_to_stop);
  if (steps_alone() && step) batches.stage_next(*step->executable, from_.parts);
  if (window.done) end_window(step, rates, window);
}

bool Stepper::may_resolve_late() const {
  return from_.device.runs_beside_host() && from_.ranks == nullptr && !from_.clock &&
         recipe_.train.on_nan == schema::OnNan::kStop;
}

TrainingWindow Stepper::run(data::Loader& loader, const WindowRates& rates) {
  TrainingWindow window;
  BatchFeed batches = feed(loader);
  while (!window.done) advance(batches, rates, window);
  resolve(window);
  return window;
}

void Stepper::end_window(const SharedStep& step, const WindowRates& rates, TrainingWindow& window) {
  from_.arrays.hold(Held::kNothing);
  window.decisions = mixed(rates.digest(), from_.steps.form());
  window.lr = from_.builder.optimizers().lr * rates.factor;
  window.finite = true;
  window.applied = !from_.clock;
  from_.in_flight.end(step, rates, window);
}

void Stepper::resolve(TrainingWindow& newest) {
  from_.in_flight.wait();
  from_.in_flight.throw_failure();
  if (!from_.in_flight.has_ended()) return;
  from_.in_flight.resolve(newest);
  // Finding the cause runs other Programs, which overwrite the outputs, so they are read first.
  if (from_.clock && (from_.clock->is_full() || !newest.finite)) read_counters(newest);
}

void Stepper::read_counters() {
  from_.in_flight.wait();
  from_.in_flight.throw_failure();
  if (pending() == 0) return;
  from_.in_flight.read_outcome();
  from_.clock->learn();
}

void Stepper::read_counters(TrainingWindow& newest) {
  read_counters();
  from_.in_flight.set_outcome(newest);
}

}  // namespace runner::train
