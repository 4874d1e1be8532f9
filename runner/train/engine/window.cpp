#include "runner/train/engine/window.h"

#include <bit>

#include "runner/train/engine/digest.h"

namespace runner::train {

optim::StepRates WindowRates::of(const optim::Rule& rule) const {
  return {.lr = rule.hyper.lr * factor, .momentum = momentum.value_or(optim::base_momentum(rule))};
}

uint64_t WindowRates::digest() const {
  return mixed(std::bit_cast<uint64_t>(factor), std::bit_cast<uint64_t>(momentum.value_or(0)));
}

void take_in(const data::Batch& batch, TrainingWindow& window) {
  for (size_t i = 0; i < batch.ids.size(); ++i) {
    const auto word = static_cast<uint64_t>(2 * batch.ids[i] + (batch.weights[i] != 0));
    window.batch_digest = mixed(window.batch_digest, word);
  }
  ++window.batches;
  window.samples += batch.samples;
  window.repeats += batch.repeats;
  window.next = batch.next();
  window.ends_epoch |= batch.last_of_epoch;
}

void count(const TrainingWindow& window, schema::OnNan on_nan, Counters& counters) {
  if (!window.finite && on_nan == schema::OnNan::kStop) return;
  ++counters.windows;
  counters.applied += window.finite && window.applied;
  counters.samples += window.samples;
  counters.repeats += window.repeats;
}

}  // namespace runner::train
