#include "runner/train/run/checkpoint/saver.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "backends/runtime/spans.h"
#include "runner/train/run/checkpoint/run_document.h"
#include "runner/train/run/checkpoint/sections.h"
#include "schema/base/error.h"

namespace runner::train {

store::Retention CheckpointSaver::retention() const {
  store::Retention retention{.keep_last = spec_.keep_last, .keep_best = {}};
  if (spec_.keep_best) retention.keep_best = store::Retention::Best{best_metric_, maximizes_, spec_.keep_best->count};
  return retention;
}

void CheckpointSaver::resume(int64_t step, const std::vector<store::StateInfo>& states) {
  saved_at_ = {step};
  for (const store::StateInfo& state : states) note({state.metrics.begin(), state.metrics.end()});
}

bool CheckpointSaver::is_among_best(const std::map<std::string, double>& metrics) const {
  if (!spec_.keep_best) return false;
  const auto found = metrics.find(best_metric_);
  if (found == metrics.end() || std::isnan(found->second)) return false;
  if (std::ssize(best_) < spec_.keep_best->count) return true;
  return maximizes_ ? found->second > best_.back() : found->second < best_.back();
}

void CheckpointSaver::note(const std::map<std::string, double>& metrics) {
  if (!is_among_best(metrics)) return;
  best_.push_back(metrics.at(best_metric_));
  std::sort(best_.begin(), best_.end(), [&](double a, double b) { return maximizes_ ? a > b : a < b; });
  best_.resize(std::min(best_.size(), static_cast<size_t>(spec_.keep_best->count)));
}

void CheckpointSaver::save(Trainer& trainer, const Checkpoint& state, const char* reason, bool pinned,
                           const std::map<std::string, double>& metrics, const std::vector<std::string>& names,
                           Arrays arrays) {
  const int64_t step = state.counters.steps;
  const Moment moment{step, state.result.batches};
  if (saved_at_ == moment && names.empty()) return;
  const backends::ScopedSpan span(backends::SpanKind::kState, "save state", {.what = reason});
  store::StateSnapshot snapshot = writer_.snapshot();
  capture(trainer, state, snapshot, arrays);
  largest_copy_ = std::max(largest_copy_, static_cast<int64_t>(snapshot.bytes()));
  if (const auto text = not_finite_parameter(snapshot))
    fail(ErrorKind::kRun,
         "the model is not finite after step {}: {}; use a smaller optimizer.lr or train.clip_grad_norm", step, *text);
  snapshot.header = {.step = step,
                     .epoch = state.position.epoch,
                     .reason = reason,
                     .pinned = pinned,
                     .metrics = {metrics.begin(), metrics.end()},
                     .names = names};
  saves_.push_back(writer_.save_state(std::move(snapshot), retention()));
  saved_at_ = moment;
  note(metrics);
  if (arrays == Arrays::kLent) wait();
}

void CheckpointSaver::take_first() {
  const store::Outcome<store::StateInfo> save = saves_.front();
  saves_.pop_front();
  try {
    save.get();
  } catch (const Error&) {
    if (!saves_.empty()) return;
    saved_at_ = {};  // the last point is not saved
    throw;
  }
}

void CheckpointSaver::collect() {
  while (!saves_.empty() && saves_.front().ready()) {
    try {
      take_first();
    } catch (const Error&) {  // the writer warns; later saves continue
    }
  }
}

void CheckpointSaver::wait() {
  while (!saves_.empty()) take_first();
}

}  // namespace runner::train
