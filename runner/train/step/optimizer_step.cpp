#include "runner/train/step/optimizer_step.h"

#include <bit>

#include "runner/train/step/digest.h"

namespace runner::train {

optim::StepRates ScheduleRates::of(const OptimizerGroup& group) const {
  return {.lr = group.rule.hyper.lr * factor_of(group.optimizer),
          .momentum = momentum.value_or(optim::base_momentum(group.rule))};
}

uint64_t ScheduleRates::digest() const {
  uint64_t digest = mixed(std::bit_cast<uint64_t>(factor), std::bit_cast<uint64_t>(momentum.value_or(0)));
  for (const double other : other_factors) digest = mixed(digest, std::bit_cast<uint64_t>(other));
  return digest;
}

void StepResult::add_batch(const data::Batch& batch) {
  for (size_t i = 0; i < batch.ids.size(); ++i) {
    const auto word = static_cast<uint64_t>(2 * batch.ids[i] + (batch.weights[i] != 0));
    batch_digest = mixed(batch_digest, word);
  }
  ++batches;
  samples += batch.samples;
  repeats += batch.repeats;
  next = batch.next();
  ends_epoch |= batch.last_of_epoch;
}

void Counters::add_step(const StepResult& result, schema::OnNan on_nan) {
  if (!result.finite && on_nan == schema::OnNan::kStop) return;
  ++steps;
  applied += result.finite && result.applied;
  samples += result.samples;
  repeats += result.repeats;
}

}  // namespace runner::train
