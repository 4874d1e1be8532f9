#include "runner/train/run/replica_run.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "backends/account.h"
#include "backends/runtime/cpu_features.h"
#include "runner/train/engine/device_rules.h"
#include "runner/train/loop/custom_loop.h"
#include "runner/train/loop/declared_loop.h"
#include "runner/train/loop/evaluator.h"
#include "runner/train/loop/trial_replica.h"
#include "runner/train/run/checkpoint.h"
#include "runner/train/run/device_account.h"
#include "runner/train/run/resuming.h"
#include "runner/train/run/state_sharing.h"
#include "schema/base/error.h"
#include "schema/base/json.h"
#include "schema/base/system_limits.h"
#include "schema/recipe/field_words.h"
#include "store/turn.h"

namespace runner::train {
namespace {

// Returns the cores of each process; empty if processes are not pinned.
std::vector<std::vector<int>> core_shares(const schema::Recipe& recipe) {
  if (!recipe.enable_cpu_affinity) return {};
  const std::vector<int> cores = backends::usable_core_ids();
  RUN_CHECK(!cores.empty(), ErrorKind::kRun, "enable_cpu_affinity: the system does not say which cores there are");
  return backends::shares_of_cores(cores, static_cast<int>(recipe.num_processes));
}

// Returns a warning if there are more processes than cores.
std::optional<std::string> crowd_warning(const std::vector<std::vector<int>>& cores) {
  std::set<int> all;
  for (const std::vector<int>& share : cores) all.insert(share.begin(), share.end());
  if (all.size() >= cores.size()) return std::nullopt;
  return fmt::format("enable_cpu_affinity: {} processes share {}, each has one", cores.size(),
                     all.size() == 1 ? "a core" : fmt::format("{} cores", all.size()));
}

// The key includes the CPU features, since kernels and their memory needs depend on them.
std::optional<PersistentGraphs> persistent_graphs(const RunRequest& request, const backends::Collectives* ranks) {
  const bool records = ranks == nullptr || ranks->rank() == 0;
  if (!records || !device_rules(request.recipe).traces_graphs || !request.recipe.tpu.persistent_cache) return {};
  return std::make_optional<PersistentGraphs>(
      request.store,
      fmt::format("{} {} {}", request.binary_version, request.build_id, backends::cpu_features().to_string()));
}

// Returns the largest evaluation batch; 0 if there is no evaluation data.
int64_t evaluation_batch(const Session& session) {
  if (!session.data.eval) return 0;
  return evaluation_plan(session.recipe, session.data.eval->size(), session.ranks).max_batch();
}

}  // namespace

ReplicaRun::ReplicaRun(const RunRequest& request, backends::Collectives* ranks)
    : request_(request),
      recipe_(request.recipe),
      hooks_(request.make_hooks != nullptr ? request.make_hooks(recipe_) : nullptr),
      records_batches_(request.record_batches),
      cores_(core_shares(recipe_)),
      pinned_(cores_.empty() ? std::vector<int>() : cores_[static_cast<size_t>(ranks != nullptr ? ranks->rank() : 0)]),
      profiler_(recipe_.profile ? std::make_optional<Profiler>(*recipe_.profile) : std::nullopt),
      graphs_(persistent_graphs(request, ranks)),
      session_(recipe_, hooks_.get(), ranks, request.data, request.own_thread),
      save_every_(recipe_.checkpoint.every),
      average_every_(recipe_.train.local_sgd ? std::optional(recipe_.train.local_sgd->every) : std::nullopt),
      check_every_(recipe_.comm.check_every),
      record_(request, session_, hooks_.get()) {
  if (graphs_) session_.tpu->keep_graphs_in(*graphs_);
  if (session_.tpu != nullptr && session_.rank() == 0)
    session_.tpu->set_listener(compile_watch_.emplace(request.observer, request.long_compile));
  if (hooks_) hooks_->attach(this);
  session_.trainer.set_halt([this] { check_not_stopped(); });
  const int64_t first_batch = session_.plan.slice(session_.rank(), 0).size();
  const bool fits = recipe_.train.auto_batch_size;
  if (fits && session_.rank() == 0 && (request.resume.empty() || request.may_begin_again)) fit();
  if (!fits) session_.trainer.check_graphs_fit(session_.plan, evaluation_batch(session_));
  session_.trainer.allocate();
  if (!fits) session_.trainer.prepare({.batch = first_batch, .last = session_.plan.window(0).steps == 1});
  end_preparation();
  log_.emplace(session_, record_, hooks_.get());
  record_.result.cores = cores_;
}

void ReplicaRun::check_not_stopped() const {
  RUN_CHECK(!asked_to_stop(), ErrorKind::kInterrupted, kInterruptedAtStart);
}

// After this, no rank can still be preparing, so a stop request can no longer abort the preparation.
void ReplicaRun::end_preparation() {
  session_.trainer.set_halt({});
  if (session_.ranks == nullptr) return;
  RUN_CHECK(!session_.ranks->any(asked_to_stop(), {"the beginning"}), ErrorKind::kInterrupted, kInterruptedAtStart);
}

// Uses another instance of the hook, so that compiling steps does not change the state of the run's hook.
void ReplicaRun::fit() {
  const std::unique_ptr<Hooks> hooks = request_.make_hooks != nullptr ? request_.make_hooks(recipe_) : nullptr;
  TrialReplica trial(recipe_, session_.data.encoding, *session_.device, hooks.get());
  trial.set_halt([this] { check_not_stopped(); });
  record_.result.fitted_batch = fit_batch(trial, recipe_, session_.data, session_.plan, *session_.device);
  session_.set_most_at_once(record_.result.fitted_batch->samples);
}

void ReplicaRun::tell_of_fit() {
  if (!record_.result.fitted_batch) return;
  const FittedBatch& fitted = *record_.result.fitted_batch;
  for (const BatchAttempt& attempt : fitted.attempts)
    record_.event(
        store::Level::kInfo, "batch_size",
        json::line(json::Object{{"samples", attempt.samples}, {"bytes", attempt.bytes}, {"fits", attempt.fits}}));
  if (fitted.attempts.size() < 2) return;
  const BatchAttempt& whole = fitted.attempts.front();
  const bool refused = accounts_alone(*session_.device);  // before its full size was known
  record_.warn(
      fmt::format("train.auto_batch_size: {} samples at once take {}{}, and a {} {}; no step has more than {} "
                  "now, and an optimizer step is made of {}",
                  whole.samples, refused ? "at least " : "", schema::readable_size(whole.bytes),
                  refused ? "GPU has" : "process may take", schema::readable_size(fitted.memory_bytes), fitted.samples,
                  fitted.accumulation));
}

RunResult ReplicaRun::execute() {
  record_.open_log_files();
  // Open or create the store only after recipe and data have been checked.
  store::Store store = store::Store::open(request_.store, store::Access::kWrite);
  store::await_turn(store, request_.stop);
  request_.fork != nullptr  ? fork(std::move(store), *request_.fork)
  : request_.resume.empty() ? record_.begin(std::move(store))
                            : resume(std::move(store));
  request_.observer.on_start(run(), name());
  record_.warn_of_all(request_.warnings);
  if (const auto text = crowd_warning(cores_)) record_.warn(*text);
  tell_of_fit();
  record_.warn_of_all(session_.data.warnings);
  record_.warn_of_all(session_.plan_warnings());
  if (session_.data.encoding.label_kind == data::LabelKind::kClass && session_.data.encoding.outputs == 1)
    record_.warn("all labels are of one class: there is nothing to learn");
  try {
    if (session_.ranks != nullptr)
      send_beginning(*session_.ranks, session_.trainer,
                     {.run = std::string(run()),
                      .name = std::string(name()),
                      .records_batches = records_batches_,
                      .metrics = record_.points().ranges(),
                      .state = restored_,
                      .most_at_once = session_.trainer.parts.most_at_once,
                      .resumed = resumed_});
    train();
  } catch (const Error& error) {
    end_with(error);
  } catch (const std::exception& error) {
    end_with(error_of(error));
  }
  if (profiler_) keep_trace(profiler_->end(/*ranks=*/nullptr));  // of a failed run
  if (tracked()) end_tracking();
  record_.keep_account(session_.tpu, graphs());
  if (record_.result.error) keep_gpu_account(/*ranks=*/nullptr);
  finish();
  return std::move(record_.result);
}

void ReplicaRun::follow() {
  const Beginning beginning = receive_beginning(*session_.ranks, session_.trainer);
  records_batches_ = beginning.records_batches;
  record_.begin_without_store(beginning.run, beginning.name, beginning.metrics);
  session_.set_most_at_once(beginning.most_at_once);
  if (beginning.state) {
    session_.schedule.restore(beginning.state->plateau);
    go_on_from(*beginning.state, beginning.resumed);
  }
  try {
    train();
  } catch (const Error& error) {
    if (!is_of_all(error)) throw;
    meet_at_the_end();
  }
}

void ReplicaRun::fork(store::Store store, const ForkRequest& request) {
  const store::RunRow parent = store::find_run(store, request.run);
  const Forked found = restore_fork(store, parent, request, session_);
  go_on_from(found.state, /*resumed=*/false);
  record_.begin_fork(std::move(store), parent, found.info);
  record_.warn_of_all(found.warnings);
}

void ReplicaRun::resume(store::Store store) {
  const store::RunRow row = store::find_run(store, request_.resume);
  if (request_.may_begin_again && store::list_states(store, row.id, /*for_resume=*/true).empty())
    return begin_again(std::move(store), row);
  const Resumed found = restore_newest(store, row, session_);
  go_on_from(found.state, /*resumed=*/true);
  const store::Recorded recorded = recorded_before(found);
  const RunRecord::Earlier earlier{.from = &found.info,
                                   .recorded_ms = recorded.time_ms,
                                   .metrics = metrics_until(store, row, recorded),
                                   .last_step = last_recorded_step(store, row)};
  record_.begin_attempt(std::move(store), row, earlier);
  record_.warn_of_all(found.warnings);
  if (other_batches_) record_.warn(*other_batches_);
  if (!request_.longer) return;
  if (const auto text = stretched_schedule(session_, earlier.metrics)) record_.warn(*text);
}

void ReplicaRun::begin_again(store::Store store, const store::RunRow& row) {
  std::optional<Forked> found;
  if (request_.fork != nullptr) {
    found = restore_fork(store, store::find_run(store, request_.fork->run), *request_.fork, session_);
    go_on_from(found->state, /*resumed=*/false);
  }
  const int64_t last_step = last_recorded_step(store, row);
  record_.begin_attempt(std::move(store), row, {.from = found ? &found->info : nullptr, .last_step = last_step});
}

void ReplicaRun::go_on_from(const RunState& state, bool resumed) {
  resumed_ = resumed;
  if (resumed && recipe_.train.auto_batch_size) {
    session_.set_most_at_once(state.most_at_once);
    record_.result.fitted_batch = fitted_before(state.most_at_once, recipe_, session_.plan);
  }
  position_ = place_of(state, session_, other_batches_);
  int64_t& batches = session_.trainer.counters.batches;
  // An older checkpoint.
  if (batches == 0) batches = position_.epoch * session_.plan.steps_per_epoch() + position_.step;
  window_ = state.window;
  next_accumulation_ = state.next_accumulation > 0 ? state.next_accumulation : session_.accumulation();
  reached_ = {step(), state.reached_epoch, session_.trainer.counters.samples};
  saved_until_ = reached_;
  if (window_.batches > 0) saved_until_ = {step(), position_.epoch, reached_.samples + window_.samples};
  log_->set_patience(state.patience);
  if (!session_.trainer.is_local() || session_.rank() == 0) session_.trainer.metrics = state.metrics;
  if (hooks_ && !state.hook.empty()) hooks_->restore(state.hook);
  if (resumed) log_->stop_where_patience_is_over();
  if (resumed && state.end) unfinished_ = state;
  if (session_.ranks == nullptr) return;
  restored_ = state;
  restored_->counters = session_.trainer.counters;
}

void ReplicaRun::end_with(const Error& error) {
  if (!save_unfinished() || !asked_to_stop()) return record_.fail_with(error);
  record_.result.status = store::RunStatus::kInterrupted;
  record_.result.exit_code = exit_code(ErrorKind::kInterrupted);
  if (is_of_all(error)) return meet_at_the_end();
  const std::string text = fmt::format("the end of step {} was interrupted: {}", step(), error.what());
  record_.warn(text);
  if (session_.ranks != nullptr) session_.ranks->fail(text, error.where());  // no rank may wait for this one any more
}

// Whether it happened between two batches of an evaluation.
bool ReplicaRun::is_of_all(const Error& error) const {
  return error.kind() == ErrorKind::kInterrupted && (session_.ranks == nullptr || agreed_to_stop_);
}

void ReplicaRun::meet_at_the_end() const {
  if (session_.ranks != nullptr) session_.ranks->barrier({"the end", step()});
}

void ReplicaRun::end_tracking() {
  try {
    hooks_->track_end(to_string(record_.result.status));
  } catch (const Error& error) {
    record_.result.error ? record_.warn(fmt::format("trackers: {}", error.what())) : record_.fail_with(error);
  }
}

void ReplicaRun::finish() {
  pass_on_warnings();
  if (session_.tpu != nullptr) record_.warn_of_all(session_.tpu->analysis());
  session_.trainer.learn();
  const Counters& counters = session_.trainer.counters;
  RunResult& result = record_.result;
  result.epochs = position_.epoch;
  result.optimizer_steps = counters.windows;
  result.skipped_steps = counters.windows - counters.applied;
  result.samples = counters.samples;
  result.repeated_samples = counters.repeats;
  result.input = input_use_;
  if (session_.tpu != nullptr) result.graphs = graph_use(*session_.tpu);
  if (log_->stopped_early())
    result.reason = fmt::format("stopped early: {} has not improved for {} evaluations",
                                recipe_.train.early_stopping->metric, log_->patience().evaluations);
  if (stopped_by_hook_) result.reason = fmt::format("stopped by the hook at step {}", step());
  if (session_.own_loop) tell_of_little_training(result);
  record_.finish();
}

void ReplicaRun::tell_of_little_training(RunResult& result) {
  if (!finished() && !interrupted())
    result.reason = fmt::format("the hook's train has returned at step {} of {}", step(), session_.scale.total_steps);
  const Counters& counters = session_.trainer.counters;
  const bool updated = std::ranges::any_of(counters.updates, [](const auto& one) { return one.second > 0; });
  if (counters.applied > 0 && !updated)
    record_.warn(
        fmt::format("no optimizer has stepped in {}: the weights are as they were; call "
                    "acc.optimizer:step() behind acc:backward(loss)",
                    schema::length_text(step(), "steps")));
}

}  // namespace runner::train
