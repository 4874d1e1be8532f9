#include "runner/train/step/window.h"

#include <bit>

#include "runner/train/step/digest.h"

namespace runner::train {

optim::StepRates WindowRates::of(const optim::Rule& rule) const {
  return {.lr = rule.hyper.lr * factor, .momentum = momentum.value_or(optim::base_momentum(rule))};
}

uint64_t WindowRates::digest() const {
  return mixed(std::bit_cast<uint64_t>(factor), std::bit_cast<uint64_t>(momentum.value_or(0)));
}

int64_t Counters::updates_of(const std::string& optimizer) const {
  const auto found = updates.find(optimizer);
  return found == updates.end() ? 0 : found->second;
}

void add_to(MetricSums& sums, const MetricSums& more) {
  for (const auto& [name, sum] : more) sums[name] += sum;
}

MetricSums StepMetrics::in_window() const {
  MetricSums sums = window;
  add_to(sums, batches);
  return sums;
}

void StepMetrics::end_window(bool finite) {
  if (finite) {
    add_to(ended, window);
    add_to(ended, batches);
  }
  window.clear();
  batches.clear();
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
