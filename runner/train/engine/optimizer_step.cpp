#include "runner/train/engine/optimizer_step.h"

#include <bit>

#include "runner/train/engine/digest.h"

namespace runner::train {

optim::StepRates ScheduleRates::of(const optim::Rule& rule) const {
  return {.lr = rule.hyper.lr * factor, .momentum = momentum.value_or(optim::base_momentum(rule))};
}

uint64_t ScheduleRates::digest() const {
  return mixed(std::bit_cast<uint64_t>(factor), std::bit_cast<uint64_t>(momentum.value_or(0)));
}

void take_in(const data::Batch& batch, StepResult& result) {
  for (size_t i = 0; i < batch.ids.size(); ++i) {
    const auto word = static_cast<uint64_t>(2 * batch.ids[i] + (batch.weights[i] != 0));
    result.batch_digest = mixed(result.batch_digest, word);
  }
  ++result.batches;
  result.samples += batch.samples;
  result.repeats += batch.repeats;
  result.next = batch.next();
  result.ends_epoch |= batch.last_of_epoch;
}

void count(const StepResult& result, schema::OnNan on_nan, Counters& counters) {
  if (!result.finite && on_nan == schema::OnNan::kStop) return;
  ++counters.steps;
  counters.applied += result.finite && result.applied;
  counters.samples += result.samples;
  counters.repeats += result.repeats;
}

}  // namespace runner::train
