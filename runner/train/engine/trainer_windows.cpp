// Optimizer steps of a Trainer: taking batches up to each all-reduce, and what is not finite.
#include <array>

#include "backends/runtime/spans.h"
#include "runner/train/engine/digest.h"
#include "runner/train/engine/loss_scaler.h"
#include "runner/train/engine/reduction.h"
#include "runner/train/engine/step_completion.h"
#include "runner/train/engine/trainer.h"

namespace runner::train {

// A single rank always has the sums.
bool Trainer::sums_behind(const TrainingWindow& window) const {
  if (is_local()) return window.done;
  return window.done || ranks_ == nullptr || recipe_.sync_each_batch || window.next.begins_epoch() ||
         window.batches % kBatchesOfPart == 0;
}

SharedStep Trainer::run_batches(BatchFeed& batches, const WindowRates& rates, TrainingWindow& window) {
  SharedStep step;
  for (;;) {
    const data::Batch& batch = batches.next();
    ++counters.batches;
    in_batch(steps_.place_of(batch, /*training=*/true), [&] { batches.throw_failure(); });
    marks_.begin_batch(/*training=*/true);
    window.done = parts.ends(batch, window.batches);
    take_in(batch, window);
    message_ = arrays_.begin_batch(batch.largest, sends_messages());
    if (window.done && clock_) {
      steps_.wait_for_batch();
      clock_->begin_window(rates);
    }
    if (is_local() || batch.weighs()) {
      for (int64_t first = 0; first < batch.size; first += parts.at_once(batch.size)) {
        const data::Batch part = batch.part(first, parts.at_once(batch.size - first));
        const bool ends_batch = first + part.size == batch.size;
        step = run_part(part, {.staged = first == 0 ? batches.staged() : 0,
                               .ends_window = window.done && ends_batch,
                               .reduces = (window.done || recipe_.sync_each_batch) && ends_batch});
      }
    } else {
      steps_.record(batch, /*training=*/true);
    }
    if (batch.last_of_epoch) marks_.end_batches(/*training=*/true);
    if (sums_behind(window)) return step;
    if (step) batches.stage_next(*step->executable, parts);
  }
}

SharedStep Trainer::run_part(const data::Batch& part, const PartOfWindow& place) {
  const bool last = place.ends_window;
  const bool completes = last && steps_alone();
  SharedStep step =
      training_step(shape_of(part.size, !arrays_.holds_any_gradients(), completes), &part, last && !completes);
  StepSubmission arguments = steps_.arguments(part, steps_.recording(/*training=*/true),
                                              last ? TracedUntil::kUpdate : TracedUntil::kBackward, step->rule_numbers);
  arguments.staged = place.staged;
  arguments.states = arrays_.states_of_step(last && !completes && message_ != nullptr);
  if (last && !completes && arrays_.reducer() != nullptr)
    arguments.signals = arrays_.reducer()->begin_signals(message_);
  if (place.reduces && !completes && arrays_.buckets() != nullptr)
    arguments.info.reduced = arrays_.buckets()->reduced();
  const BatchPlace batch = steps_.place_of(part, /*training=*/true);
  if (completes) pending_.begin_update();
  const backends::Ticket ticket = in_batch(batch, [&] {
    return executor_.submit(completes ? "forward, backward, update" : "forward, backward", *step, arguments);
  });
  pending_.set_under_way({ticket, step, steps_.recording(/*training=*/true), completes, batch});
  arrays_.hold(steps_alone() ? Held::kSum : Held::kShare);
  return step;
}

SharedStep Trainer::run_batches_together(BatchFeed& batches, const WindowRates& rates, TrainingWindow& window,
                                         const std::function<bool()>& asked_to_stop) {
  const SharedStep last = run_batches(batches, rates, window);
  if (!arrays_.holds_any_gradients()) arrays_.clear_window(message_);
  const Meeting meeting = window.done ? end_of_window(message_) : part_of_window(message_);
  const bool reduces = window.done && arrays_.reducer() != nullptr;
  if (reduces) reduce_in_buckets();
  if (last) batches.stage_next(*last->executable, parts);
  pending_.settle();
  pending_.throw_failure();
  if (builder_.varies(true))
    add_to(metrics.window, merged(std::exchange(metrics.batches, {}), *ranks_, executor_.site("metrics")));
  const SharedStep& step = meeting_step(meeting);
  StepSubmission end = arguments_.of_window_end();
  if (reduces) end.after = arrays_.reducer()->reduced();
  end.states = arrays_.states_of_window(meeting.source, meeting.message != nullptr);
  executor_.begin_exchange(/*again=*/false);
  if (window.done) pending_.begin_update_of_all();  // after the barrier any rank may have begun to update
  window.interrupted = ranks_->any(asked_to_stop && asked_to_stop(), executor_.site("gradients"));
  if (meeting.source == SumSource::kFoldedRows) arrays_.fold_rows();
  executor_.execute("update", *step, end, backends::SpanKind::kOptimizer);
  if (!window.done) arrays_.give_sums_to_rank_0();
  if (window.done) arrays_.round_share();
  ranks_->barrier(executor_.site("the update"));
  if (!window.done && ranks_->rank() == 0) keep_sum_of_part(*step);
  arrays_.hold(ranks_->rank() == 0 ? Held::kSum : Held::kNothing);
  return step;
}

// Starts while the device is still computing the last batch of the optimizer step.
void Trainer::reduce_in_buckets() {
  if (!arrays_.reducer()->has_signalled()) arrays_.reducer()->signal_all(message_);
  arrays_.reduce(message_);
}

void Trainer::keep_sum_of_part(const CompiledStep& part) {
  const backends::ModelPause pause(device_);
  std::array<double, 2> sums{};
  device_.read_output(*part.executable, kPartSum, std::as_writable_bytes(std::span(sums)));
  arrays_.write(layout_.find(Role::kSum, 0, kWindowSum), std::as_bytes(std::span(sums)));
}

Trainer::Meeting Trainer::end_of_window(const MessageLayout* message) {
  if (arrays_.reducer() != nullptr) return {.ends_window = true, .source = SumSource::kBuckets};
  return {.ends_window = true, .source = arrays_.sum_source(), .message = message};
}

Trainer::Meeting Trainer::part_of_window(const MessageLayout* message) const {
  return {.source = arrays_.sum_source(), .message = message};
}

const SharedStep& Trainer::meeting_step(const Meeting& kind) {
  SharedStep& step = meeting_steps_[kind];
  if (!step) {
    executor_.ask_halt();
    const MessageLayout none;
    const backends::Program end = complete_window(builder_, *arrays_.shares(), kind.ends_window,
                                                  kind.message != nullptr ? *kind.message : none, kind.source);
    const bool are_reduced = kind.ends_window && arrays_.buckets() != nullptr;
    step = compiled_step(device_.compile(end, user_.of_window_end(kind.ends_window, are_reduced)));
  }
  return step;
}

void Trainer::advance(BatchFeed& batches, const WindowRates& rates, TrainingWindow& window,
                      const std::function<bool()>& asked_to_stop) {
  arguments_.set_rates(rates, parts.accumulation);
  if (window.batches == 0) arrays_.hold(Held::kNothing);
  pending_.begin();
  const SharedStep step =
      steps_alone() ? run_batches(batches, rates, window) : run_batches_together(batches, rates, window, asked_to_stop);
  if (steps_alone() && step) batches.stage_next(*step->executable, parts);
  if (window.done) end_window(step, rates, window);
}

bool Trainer::may_learn_late() const {
  return device_.runs_beside_host() && ranks_ == nullptr && !clock_ && recipe_.train.on_nan == schema::OnNan::kStop;
}

TrainingWindow Trainer::run_window(data::Loader& loader, const WindowRates& rates) {
  TrainingWindow window;
  BatchFeed batches = feed(loader);
  while (!window.done) advance(batches, rates, window);
  learn_end(window);
  return window;
}

void Trainer::end_window(const SharedStep& step, const WindowRates& rates, TrainingWindow& window) {
  arrays_.hold(Held::kNothing);
  window.decisions = mixed(rates.digest(), steps_.form());
  window.lr = optimizers_.lr * rates.factor;
  window.finite = true;
  window.applied = !clock_;
  pending_.end(step, rates, window);
}

void Trainer::learn_end(TrainingWindow& newest) {
  pending_.settle();
  pending_.throw_failure();
  if (!pending_.has_ended()) return;
  pending_.learn_end(newest);
  // Finding the cause runs other Programs, which overwrite the outputs, so they are read first.
  if (clock_ && (clock_->is_full() || !newest.finite)) learn(newest);
}

void Trainer::learn() {
  pending_.settle();
  pending_.throw_failure();
  if (pending() == 0) return;
  pending_.read_outcome();
  clock_->learn();
}

void Trainer::learn(TrainingWindow& newest) {
  learn();
  pending_.tell_outcome(newest);
}

void Trainer::count(const TrainingWindow& window) {
  train::count(window, recipe_.train.on_nan, counters);
}

}  // namespace runner::train
