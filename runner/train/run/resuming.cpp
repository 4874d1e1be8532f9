#include "runner/train/run/resuming.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "schema/base/error.h"

namespace runner::train {
namespace {

Resumed load_newest(store::Store& store, const store::RunRow& run, Trainer& trainer) {
  std::vector<std::string> warnings;
  std::optional<Error> newest;
  for (const store::StateInfo& info : store::list_states(store, run.id, true)) {
    try {
      const store::LoadedState loaded = store::load_state(store, info.id);
      Checkpoint state = checkpoint_of(loaded, trainer.optimizers().names);
      restore(loaded, trainer);
      return {info, std::move(state), std::move(warnings)};
    } catch (const Error& error) {
      if (!newest) newest = error;
      warnings.push_back(fmt::format("{}; trying the previous state", error.message()));
    }
  }
  if (newest) throw Error(*newest).note("no state of the run can be used");
  store::check_not_running(store, run.id, "resume");  // a running process may still save one
  fail(ErrorKind::kNotFound, "run {} has no complete state to resume from; start again with `runner exec`", run.uid);
}

// Whether a schedule without a given length ends with the run.
bool ends_with_run(const schema::SchedulerSpec& spec) {
  using schema::SchedulerType;
  const bool whole = spec.type == SchedulerType::kLinear || spec.type == SchedulerType::kCosine ||
                     spec.type == SchedulerType::kCosineRestarts || spec.type == SchedulerType::kPolynomial ||
                     spec.type == SchedulerType::kOneCycle;
  return whole && !spec.length;
}

}  // namespace

Resumed restore_newest(store::Store& store, const store::RunRow& run, Session& session) {
  Resumed found = load_newest(store, run, session.trainer);
  constexpr const char* kRemedy = "restore the data, or start a new run";
  check_data("data.train", found.state.train_data, session.train_fingerprint(), kRemedy);
  check_data("data.eval", found.state.eval_data, session.eval_fingerprint(), kRemedy);
  session.schedule.restore(found.state.plateau);
  return found;
}

Checkpoint restore_values(store::Store& store, const store::RunRow& run, std::optional<int64_t> id, Session& session) {
  for (const store::StateInfo& info : store::list_states(store, run.id, /*for_resume=*/true)) {
    if (id && info.id != *id) continue;
    const store::LoadedState loaded = store::load_state(store, info.id);
    const Counters now = session.trainer.counters;
    restore(loaded, session.trainer);
    Counters& counters = session.trainer.counters;
    counters.steps = now.steps;
    counters.applied = now.applied;
    counters.samples = now.samples;
    counters.batches = now.batches;
    counters.repeats = now.repeats;
    return checkpoint_of(loaded, session.trainer.optimizers().names);
  }
  fail(ErrorKind::kRun, "load_state: run {} has no {}", run.uid, id ? fmt::format("state {}", *id) : "state yet");
}

// The end of an interrupted optimizer step is repeated, including an evaluation that an attempt since then may have
// recorded.
store::SeriesPosition recorded_before(const Resumed& found) {
  store::SeriesPosition recorded{.step = found.info.step};
  if (found.state.pending) recorded.time_ms = found.info.created_ms;
  return recorded;
}

std::vector<store::MetricSummary> metrics_until(store::Store& store, const store::RunRow& run,
                                                const store::SeriesPosition& recorded) {
  const bool cuts_step = recorded.time_ms != INT64_MAX;
  std::vector<store::MetricSummary> metrics;
  for (store::MetricSummary metric : store::list_metrics(store, run.id)) {
    if (metric.last_step > recorded.step || (cuts_step && metric.last_step == recorded.step)) {
      metric.n = 0;
      metric.min = metric.max = NAN;
      for (const store::Point& point : store::metric_points(store, run, metric.name)) {
        if (!recorded.has(point)) continue;
        ++metric.n;
        metric.last = point.value;
        metric.last_step = point.step;
        metric.min = std::fmin(metric.min, point.value);
        metric.max = std::fmax(metric.max, point.value);
      }
    }
    if (metric.n > 0) metrics.push_back(std::move(metric));
  }
  return metrics;
}

int64_t last_recorded_step(store::Store& store, const store::RunRow& run) {
  int64_t last = 0;
  for (const store::MetricSummary& metric : store::list_metrics(store, run.id)) last = std::max(last, metric.last_step);
  return last;
}

std::optional<std::string> stretched_schedule(const Session& session,
                                              const std::vector<store::MetricSummary>& metrics) {
  if (!ends_with_run(session.recipe.scheduler)) return std::nullopt;
  const Counters& counters = session.trainer.counters;
  for (const store::MetricSummary& metric : metrics) {
    if (metric.name != "train/lr") continue;
    const double next = session.trainer.optimizers().lr * session.schedule.factor(counters.scheduled);
    return fmt::format(
        "the schedule is stretched to the longer run: train/lr was {} at step {} and is {} at step {}; set "
        "scheduler.length to keep the schedule",
        metric.last, metric.last_step, next, counters.steps + 1);
  }
  return std::nullopt;
}

}  // namespace runner::train
