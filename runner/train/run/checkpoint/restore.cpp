#include "runner/train/run/checkpoint/restore.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runner/data/dataset.h"
#include "runner/train/run/checkpoint/optional_sections.h"
#include "runner/train/run/checkpoint/rank_parts.h"
#include "runner/train/run/checkpoint/run_document.h"
#include "runner/train/run/checkpoint/sections.h"
#include "runner/train/step/power_sgd.h"
#include "schema/base/error.h"
#include "schema/base/text.h"

namespace runner::train {

namespace {

Resumed load_one(store::Store& store, int64_t id, Trainer& trainer) {
  store::LoadedState loaded = store::load_state(store, id);
  Checkpoint state = checkpoint_of(loaded, trainer.optimizers().names);
  select_rank_part(loaded, state, trainer);
  restore(loaded, trainer);
  return {loaded.info, std::move(state), {}};
}

Resumed load_newest(store::Store& store, const store::RunRow& run, Trainer& trainer) {
  std::vector<std::string> warnings;
  std::optional<Error> newest;
  for (const store::StateInfo& info : store::list_states(store, run.id, true)) {
    try {
      Resumed found = load_one(store, info.id, trainer);
      found.warnings = std::move(warnings);
      return found;
    } catch (const Error& error) {
      if (!newest) newest = error;
      warnings.push_back(fmt::format("{}; trying the previous state", error.message()));
    }
  }
  if (newest) throw Error(*newest).note("no state of the run can be used");
  store::check_not_running(store, run.id, "resume");  // a running process may still save one
  fail(ErrorKind::kNotFound, "run {} has no complete state to resume from; start again with `runner exec`", run.uid);
}

store::LoadedState load(store::Store& store, const store::RunRow& parent, int64_t id) {
  for (const store::StateInfo& info : store::list_states(store, parent.id)) {
    if (id >= 0 ? info.id == id : !info.superseded) return store::load_state(store, info.id);
  }
  RUN_CHECK(id < 0, ErrorKind::kNotFound, "run {} has no state {}; `runner states {}` lists its states", parent.uid, id,
            parent.uid);
  fail(ErrorKind::kNotFound, "run {} has no complete state to fork from", parent.uid);
}

template <class Value>
std::string changed(const char* key, const Value& before, const Value& after) {
  return fmt::format("{} changed from {} to {}", key, before, after);
}

// Returns why optimizer steps would have other samples than those of the parent; none if they have the same.
std::optional<std::string> other_steps(const schema::Recipe& before, const schema::Recipe& after) {
  std::optional<std::string> why;
  const auto compare = [&](const char* key, auto was, decltype(was) is) {
    if (!why && was != is) why = changed(key, was, is);
  };
  compare("data.batch_size", before.data.batch_size, after.data.batch_size);
  compare("num_processes", before.num_processes, after.num_processes);
  compare("gradient_accumulation_steps", before.gradient_accumulation_steps, after.gradient_accumulation_steps);
  compare("the seed of the data", before.data.seed.value_or(before.seed), after.data.seed.value_or(after.seed));
  compare("seed", before.seed, after.seed);
  compare("sync_with_dataloader", before.sync_with_dataloader, after.sync_with_dataloader);
  compare("split_batches", before.split_batches, after.split_batches);
  compare("data.shuffle", before.data.shuffle, after.data.shuffle);
  compare("data.drop_last", before.data.drop_last, after.data.drop_last);
  compare("data.even_batches", before.data.even_batches, after.data.even_batches);
  compare("data.dispatch_batches", before.data.dispatch_batches, after.data.dispatch_batches);
  compare("data.stream", before.data.stream, after.data.stream);
  if (after.data.stream) compare("data.shuffle_buffer", before.data.shuffle_buffer, after.data.shuffle_buffer);
  return why;
}

std::string difference(const char* section, const std::string& before, const std::string& now) {
  if (before.empty() || now.empty()) return fmt::format("{} is {}", section, now.empty() ? "gone" : "new");
  return fmt::format("{} changed: {}", section,
                     data::difference(data::Fingerprint::parse(before), data::Fingerprint::parse(now)));
}

// A hook of the parent may have changed the accumulation, and only a hook of the child can continue with it.
std::optional<std::string> steps_without_hook(const Checkpoint& state, const schema::Recipe& after) {
  const int64_t is = after.gradient_accumulation_steps;
  if (!after.hooks.empty() || state.accumulation == 0) return std::nullopt;
  for (const int64_t was : {state.accumulation, state.next_accumulation})
    if (was != is) return changed("gradient_accumulation_steps", was, is);
  return std::nullopt;
}

// Returns why the child must begin with the first epoch; none if it continues at the parent's next batch.
std::optional<std::string> reason_to_begin(const ForkRequest& request, const Checkpoint& state, Session& session) {
  if (auto why = other_steps(request.before, session.recipe)) return why;
  if (auto why = steps_without_hook(state, session.recipe)) return why;
  if (state.result.batches > 0 && session.has_custom_loop)
    return "the state to fork from was saved within an optimizer step, but a custom loop starts with a new one";
  if (state.train_data == session.train_fingerprint()) return std::nullopt;
  return difference("data.train", state.train_data, session.train_fingerprint());
}

// Early stopping and a plateau schedule continue if they would have seen the same evaluations.
void keep_watching(const ForkRequest& request, Session& session, Forked& fork) {
  const schema::Recipe &before = request.before, &after = session.recipe;
  const bool same_eval = fork.state.eval_data == session.eval_fingerprint();
  const auto& was = before.train.early_stopping;
  const auto& is = after.train.early_stopping;
  const bool same_patience = was && is && was->metric == is->metric && was->mode == is->mode;
  if (!(same_eval && same_patience)) {
    if (is && fork.state.patience.best)
      fork.warnings.emplace_back(
          "early stopping starts from scratch, because it monitors another metric or other data");
    fork.state.patience = {};
  }
  const bool plateau = optim::observes_metrics(after.scheduler);
  const bool same_plateau = plateau && before.scheduler.type == after.scheduler.type &&
                            before.scheduler.metric == after.scheduler.metric &&
                            before.scheduler.mode == after.scheduler.mode;
  if (same_eval && same_plateau) {
    session.schedule.restore(fork.state.plateau);
  } else if (plateau) {
    fork.warnings.emplace_back("the schedule starts from scratch, because it monitors another metric or other data");
  }
}

std::optional<std::string> missing_optimizer(const Forked& fork, const Trainer& trainer) {
  for (const std::string& name : trainer.optimizers().names)
    if (!fork.state.counters.updates.contains(name))
      return name.empty() ? fmt::format("state {} has several named optimizers", fork.info.id)
                          : fmt::format("state {} has no optimizer {}", fork.info.id, name);
  return std::nullopt;
}

// Restores all slots or none: a zero moment with the bias correction of many steps would be wrong.
bool take_slots(const ForkRequest& request, const store::LoadedState& loaded, Trainer& trainer, Forked& fork) {
  const bool same_rule = request.before.optimizer.type == trainer.recipe().optimizer.type;
  std::optional<std::string> missing =
      same_rule ? missing_optimizer(fork, trainer)
                : fmt::format("state {} was saved with another type of optimizer", fork.info.id);
  if (!missing) missing = restore_slots(loaded, trainer);
  if (missing) fork.warnings.push_back(fmt::format("the optimizer starts from scratch: {}", *missing));
  return !missing;
}

void warn_of_frozen(const store::LoadedState& loaded, const Trainer& trainer, Forked& fork) {
  int64_t count = 0;
  for (const nn::Parameter& parameter : trainer.model().parameters.parameters()) {
    const std::string slots = "optimizer/" + parameter.name + '/';
    const auto has_slot = [&](const store::Section& section) { return section.name.starts_with(slots); };
    count += !parameter.trainable && std::any_of(loaded.sections.begin(), loaded.sections.end(), has_slot);
  }
  if (count > 0) {
    fork.warnings.push_back(
        fmt::format("the optimizer moments of {} were dropped", count_text(count, "frozen parameter")));
  }
}

// The child begins with the first epoch, so all related counts are reset.
void reset_progress(Checkpoint& state) {
  state.position = {};
  state.result = {};
  state.reached_epoch = 0;
  state.accumulation = state.next_accumulation = 0;
  state.used = state.global_batch = state.extra_steps = state.not_finite = 0;
  state.patience = {};
  state.metrics = {};
  state.hook.clear();
  state.ranks = 1;
  state.rank_parts.clear();
}

void check_steps_remain(const Forked& fork, const Session& session) {
  const int64_t done = session.trainer.counters.steps, all = session.length.total_steps;
  RUN_CHECK(done < all, ErrorKind::kUsage,
            "state {} is at step {}, but the child run ends with step {}: nothing is left to train; increase train.{}, "
            "or restart from its weights with --restart",
            fork.info.id, done, all, session.recipe.train.steps ? "steps" : "epochs");
}

}  // namespace

Resumed restore_run(store::Store& store, const store::RunRow& run, std::optional<int64_t> id, Session& session) {
  Resumed found = id ? load_one(store, *id, session.trainer) : load_newest(store, run, session.trainer);
  constexpr const char* kRemedy = "restore the data, or start a new run";
  check_data("data.train", found.state.train_data, session.train_fingerprint(), kRemedy);
  check_data("data.eval", found.state.eval_data, session.eval_fingerprint(), kRemedy);
  session.schedule.restore(found.state.plateau);
  return found;
}

Checkpoint restore_values(store::Store& store, int64_t id, Session& session) {
  store::LoadedState loaded = store::load_state(store, id);
  Checkpoint found = checkpoint_of(loaded, session.trainer.optimizers().names);
  select_rank_part(loaded, found, session.trainer);
  const Counters now = session.trainer.counters;
  restore(loaded, session.trainer);
  Counters& counters = session.trainer.counters;
  counters.steps = now.steps;
  counters.applied = now.applied;
  counters.samples = now.samples;
  counters.batches = now.batches;
  counters.repeats = now.repeats;
  return found;
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
  const schema::SchedulerSpec& spec = session.recipe.scheduler;
  if (!optim::ends_with_run(spec)) return std::nullopt;
  const Counters& counters = session.trainer.counters;
  const auto rate = std::ranges::find(metrics, "train/lr", &store::MetricSummary::name);
  if (rate == metrics.end()) return std::nullopt;
  const std::string before = fmt::format("{:.6g}", rate->last);
  const std::string now =
      fmt::format("{:.6g}", session.trainer.optimizers().lr * session.schedule.factor(counters.scheduled));
  if (before == now) return std::nullopt;
  return fmt::format(
      "the schedule is stretched to the longer run: train/lr was {} at step {} and is {} at step {}; to keep it as it "
      "was, use `runner fork RUN` with {}",
      before, rate->last_step, now, counters.steps + 1, fmt::join(optim::keys_without_run(spec, counters.steps), ", "));
}

Forked restore_fork(store::Store& store, const store::RunRow& parent, const ForkRequest& request, Session& session) {
  store::LoadedState loaded = load(store, parent, request.state);
  Trainer& trainer = session.trainer;
  Forked fork{loaded.info, checkpoint_of(loaded, trainer.optimizers().names), {}};
  select_rank_part(loaded, fork.state, trainer);
  restore_model(loaded, trainer);
  if (request.restart) {
    reset_progress(fork.state);
    return fork;
  }
  const Counters counters = fork.state.counters;
  const bool slots = take_slots(request, loaded, trainer, fork);
  if (slots) {
    warn_of_frozen(loaded, trainer, fork);
    trainer.counters.updates = counters.updates;
    restore_use(loaded, trainer);
  }
  if (request.before.scaler.init_scale == session.recipe.scaler.init_scale) restore_scaler(loaded, trainer);
  if (is_power_sgd(session.recipe.comm))
    fork.warnings.emplace_back("comm.hook: the compression of gradients starts from scratch");
  if (const auto why = reason_to_begin(request, fork.state, session)) {
    fork.warnings.push_back(fmt::format("training starts with the first epoch: {}", *why));
    reset_progress(fork.state);
    return fork;
  }
  restore_sums(loaded, trainer);
  restore_gradients(loaded, fork.state, trainer);
  trainer.counters = counters;
  if (!slots) trainer.counters.updates.clear();
  keep_watching(request, session, fork);
  check_steps_remain(fork, session);
  return fork;
}

}  // namespace runner::train
