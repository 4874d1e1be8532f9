#include "runner/train/engine/in_flight_step.h"

#include <array>
#include <span>
#include <string>
#include <utility>

#include "runner/train/step/declared_step.h"
#include "runner/train/step/device_rules.h"
#include "runner/train/step/gradients.h"
#include "schema/base/error.h"

namespace runner::train {

void add_metrics(backends::Device& device, const CompiledStep& step, const StepBuilder::Recorded& recorded, int first,
                 MetricSums& sums) {
  for (const StepBuilder::Metric& metric : recorded.metrics) {
    MetricSum read;
    for (double* value : {&read.sum, &read.weight})
      device.read_output(*step.executable, first++, std::as_writable_bytes(std::span(value, 1)));
    sums[metric.name] += read;
  }
}

bool measures_lost_gradient(const schema::Recipe& recipe, const backends::ProcessGroup* ranks) {
  return rounds_to_bf16(recipe) && (ranks == nullptr || ranks->rank() == 0);
}

void add_lost_gradient(backends::Device& device, const CompiledStep& step, LostGradient& lost) {
  if (step.lost_output < 0) return;
  std::array<float, 2> read{};
  for (int i = 0; i < 2; ++i)
    device.read_output(*step.executable, step.lost_output + i,
                       std::as_writable_bytes(std::span(&read[static_cast<size_t>(i)], 1)));
  lost.add(read[0], read[1]);
}

InFlightStep::InFlightStep(const schema::Recipe& recipe, backends::Device& device, const Optimizers& optimizers,
                           Counters& counters, StepMetrics& metrics, bool device_counts)
    : recipe_(recipe),
      device_(device),
      optimizers_(optimizers),
      counters_(counters),
      metrics_(metrics),
      device_counts_(device_counts) {}

void InFlightStep::begin() {
  step_.reset();
}

int InFlightStep::outcome_outputs() const {
  return kGradNorm + (reports_grad_norm(recipe_) ? 1 : 0);
}

void InFlightStep::wait() {
  if (!submitted_) return;
  const Submitted done = *std::exchange(submitted_, std::nullopt);
  // If something has failed between the submission and end(), ended_ still belongs to the previous optimizer step.
  const bool ends = done.completes && ended_ && !ended_->known;
  try {
    in_batch(done.batch, [&] { device_.wait(done.ticket); });
    if (ends) update_ = Update::kNone;
    const int first_metric = done.completes ? outcome_outputs() + (device_counts_ ? 2 : 0) : 0;
    if (done.recorded != nullptr) add_metrics(device_, *done.step, *done.recorded, first_metric, metrics_.batches);
    add_lost_gradient(device_, *done.step, lost_gradient_);
    if (ends) read_end(*done.step);
  } catch (...) {
    failure_ = std::current_exception();
    if (ends) take_back();
    metrics_.end_step(/*finite=*/false);
    ended_.reset();
  }
}

void InFlightStep::throw_failure() {
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void InFlightStep::check() const {
  if (failure_) std::rethrow_exception(failure_);
  const bool may_continue = !ended_ || ended_->finite || recipe_.train.on_nan == schema::OnNan::kSkip;
  RUN_CHECK(may_continue, ErrorKind::kRun, "the step before is not finite");
}

void InFlightStep::end(const SharedStep& step, const ScheduleRates& rates, const StepResult& result) {
  step_ = step;
  if (update_ == Update::kOfAll) update_ = Update::kNone;
  outcome_.reset();
  ended_ = {.scheduled = rates.schedule_steps, .samples = result.samples, .repeats = result.repeats};
  counters_.add_step(result, recipe_.train.on_nan);
  if (device_counts_) return;
  counters_.scheduled += rates.schedule_steps;
  for (const std::string& optimizer : optimizers_.names) ++counters_.updates[optimizer];
}

void InFlightStep::resolve(StepResult& newest) {
  if (!ended_->known) read_end(*step_);
  const Ended end = *std::exchange(ended_, std::nullopt);
  newest.finite = end.finite;
  newest.grad_norm = end.grad_norm;
}

void InFlightStep::read_end(const CompiledStep& step) {
  uint8_t finite = 1;
  device_.read_output(*step.executable, kFinite, std::as_writable_bytes(std::span(&finite, 1)));
  ended_->finite = finite != 0;
  if (reports_grad_norm(recipe_)) {
    float norm = 0;
    device_.read_output(*step.executable, kGradNorm, std::as_writable_bytes(std::span(&norm, 1)));
    ended_->grad_norm = norm;
  }
  ended_->known = true;
  metrics_.end_step(ended_->finite);
  if (!ended_->finite) take_back();
}

// A step that is not finite keeps its count in optimizer steps, samples and repeats with train.on_nan: skip.
void InFlightStep::take_back() {
  if (!device_counts_) {
    --counters_.applied;
    counters_.scheduled -= ended_->scheduled;
    for (const std::string& optimizer : optimizers_.names) --counters_.updates[optimizer];
  }
  if (ended_->finite || recipe_.train.on_nan == schema::OnNan::kStop) {
    --counters_.steps;
    counters_.samples -= ended_->samples;
    counters_.repeats -= ended_->repeats;
  }
}

void InFlightStep::read_outcome() {
  if (!step_) return;
  uint8_t applied = 0;
  double factor = 0;
  const int first = outcome_outputs();
  device_.read_output(*step_->executable, first, std::as_writable_bytes(std::span(&applied, 1)));
  device_.read_output(*step_->executable, first + 1, std::as_writable_bytes(std::span(&factor, 1)));
  outcome_ = {applied != 0, optimizers_.lr * factor};
}

void InFlightStep::set_outcome(StepResult& newest) const {
  if (!outcome_) return;
  newest.applied = outcome_->applied || !newest.finite;
  newest.lr = outcome_->lr;
}

}  // namespace runner::train
