#include "runner/train/run/rank_run.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "backends/dist/rank_error.h"
#include "backends/runtime/cpu_features.h"
#include "runner/train/engine/left_out_batches.h"
#include "runner/train/loop/batch_fit.h"
#include "runner/train/loop/evaluator.h"
#include "runner/train/loop/step_estimate.h"
#include "runner/train/loop/train_loop.h"
#include "runner/train/loop/trial_rank.h"
#include "runner/train/run/checkpoint/restore.h"
#include "runner/train/run/checkpoint/sharing.h"
#include "runner/train/run/host_data.h"
#include "runner/train/run/run_data.h"
#include "runner/train/step/device_rules.h"
#include "runner/train/step/gathering.h"
#include "schema/base/error.h"
#include "schema/base/json.h"
#include "schema/base/system_limits.h"
#include "schema/base/text.h"
#include "schema/recipe/field_words.h"
#include "store/network.h"
#include "store/store.h"

namespace runner::train {
namespace {

// Returns the cores of each process; empty if processes are not pinned.
std::vector<std::vector<int>> cores_by_rank(const RunRequest& request) {
  const schema::Recipe& recipe = request.recipe;
  if (!recipe.enable_cpu_affinity) return {};
  if (!request.cores.empty()) return request.cores;
  const std::vector<int> cores = backends::usable_core_ids();
  RUN_CHECK(!cores.empty(), ErrorKind::kRun, "enable_cpu_affinity: cannot list the cores of the system");
  return backends::shares_of_cores(cores, static_cast<int>(recipe.num_processes));
}

// The key includes the CPU features, since kernels and their memory needs depend on them.
std::optional<PersistentGraphs> persistent_graphs(const RunRequest& request, const backends::ProcessGroup* ranks) {
  const bool records = ranks == nullptr || ranks->rank() == 0;
  if (!records || !device_rules(request.recipe).traces_graphs || !request.recipe.tpu.persistent_cache) return {};
  return std::make_optional<PersistentGraphs>(
      request.recording.store, fmt::format("{} {} {}", request.recording.binary_version, request.recording.build_id,
                                           backends::cpu_features().to_string()));
}

// Returns the largest evaluation batch; 0 if there is no evaluation data.
int64_t evaluation_batch(const Session& session) {
  const auto plan = evaluation_plan(session.trainer.builder(), session.data, session.recipe.num_processes);
  return plan ? plan->max_batch() : 0;
}

// Why the run stopped early.
std::string early_stopping_text(const schema::Recipe& recipe, const Patience& patience) {
  return fmt::format("{} has not improved for {}", recipe.train.early_stopping->metric,
                     count_text(patience.evaluations, "evaluation"));
}

}  // namespace

RankRun::RankRun(const RunRequest& request, backends::ProcessGroup* ranks)
    : request_(request),
      recipe_(request.recipe),
      hooks_(request.make_hooks != nullptr ? request.make_hooks(recipe_) : nullptr),
      cores_(cores_by_rank(request)),
      pinned_(cores_.empty() ? std::vector<int>() : cores_[static_cast<size_t>(ranks != nullptr ? ranks->rank() : 0)]),
      profiler_(recipe_.profile ? std::make_optional<Profiler>(*recipe_.profile) : std::nullopt),
      graphs_(persistent_graphs(request, ranks)),
      session_(recipe_, hooks_.get(), ranks, data_of(request, ranks), request.own_thread),
      record_(request, session_, hooks_.get()),
      state_(session_, hooks_.get(), request.stop),
      device_(request, session_, record_, graphs_ ? &*graphs_ : nullptr) {
  state_.records_batches = request.recording.has_batch_digests;
  if (auto* const tpu = backends::tpu::find_tpu_model(*session_.device)) {
    if (graphs_) tpu->keep_graphs_in(*graphs_);
    if (session_.rank() == 0) tpu->set_listener(compile_watch_.emplace(request.observer, request.long_compile));
  }
  if (hooks_) hook_callback_.emplace(*hooks_, state_, record_, request.observer);
  prepare();
  callbacks_.emplace(RunParts{.state = state_,
                              .record = record_,
                              .device = device_,
                              .observer = request.observer,
                              .hook_callback = hook_callback_ ? &*hook_callback_ : nullptr,
                              .profiler = profiler_ ? &*profiler_ : nullptr});
  record_.result.cores = cores_;
}

// ---- preparation ---------------------------------------------------------------------------------------------------

void RankRun::check_not_stopped() const {
  RUN_CHECK(!state_.control.asked_to_stop(), ErrorKind::kInterrupted, kInterruptedAtStart);
}

void RankRun::prepare() {
  session_.trainer.set_halt([this] { check_not_stopped(); });
  const int64_t first_batch = session_.plan.slice(session_.rank(), 0).size();
  const bool fits = recipe_.train.auto_batch_size;
  if (fits && session_.rank() == 0 && (request_.origin.resume.empty() || request_.origin.may_begin_again)) fit();
  if (!fits) session_.trainer.step_memory().check_graphs_fit(session_.plan, evaluation_batch(session_));
  session_.trainer.allocate(request_.origin.restores_weights() ? FirstWeights::kNone : FirstWeights::kInitial);
  if (!fits)
    session_.trainer.step_memory().prepare({.batch = first_batch, .last = session_.plan.optimizer_step(0).steps == 1});
  session_.trainer.step_memory().check_batches(session_.plan);
  end_preparation();
}

// After this, no rank can still be preparing, so a stop request can no longer abort the preparation.
void RankRun::end_preparation() {
  session_.trainer.set_halt({});
  if (session_.ranks == nullptr) return;
  if (session_.ranks->spans_hosts()) check_data_of_hosts();
  RUN_CHECK(!session_.ranks->any(state_.control.asked_to_stop(), {"the beginning"}), ErrorKind::kInterrupted,
            kInterruptedAtStart);
}

// Compares what the ranks that have read the data found.
void RankRun::check_data_of_hosts() {
  constexpr const char* kWhat[] = {"data.train", "data.eval", "the tokenizer"};
  using Prints = std::array<std::string, std::size(kWhat)>;
  std::optional<std::pair<std::string, Prints>> mine;
  if (reads_data(*session_.ranks)) {
    const std::optional<data::TextEncoding>& texts = session_.data.encoding.texts;
    mine = {session_.ranks->name(),
            {session_.train_fingerprint(), session_.eval_fingerprint(), texts ? json::compact(texts->to_json()) : ""}};
  }
  decltype(mine) first;
  for (const auto& found : gather_values(mine, *session_.ranks, {"the data"})) {
    if (!found) continue;  // uses what the first rank of its host has read
    if (!first) first = found;
    const auto [here, there] = std::ranges::mismatch(found->second, first->second);
    if (here == found->second.end()) continue;
    const std::string message = fmt::format(
        "{} has other data than {}: {} is {}, and {}; copy the files to all hosts, or put them on a shared file system",
        found->first, first->first, kWhat[here - found->second.begin()], *here, *there);
    if (session_.ranks->rank() == 0) throw Error(ErrorKind::kData, message);
    throw backends::RankError(ErrorKind::kData, message);  // all ranks know it
  }
}

// Uses another instance of the hook, so that compiling steps does not change the state of the run's hook.
void RankRun::fit() {
  const std::unique_ptr<Hooks> hooks = request_.make_hooks != nullptr ? request_.make_hooks(recipe_) : nullptr;
  TrialRank trial(recipe_, session_.length.total_steps, session_.data.encoding, *session_.device, hooks.get());
  trial.set_halt([this] { check_not_stopped(); });
  try {
    record_.result.fitted_batch =
        trial.compile([&] { return fit_batch(trial, recipe_, session_.data, session_.plan, *session_.device); });
  } catch (const UnknownBeforeRun& error) {
    fail(ErrorKind::kRecipe, "train.auto_batch_size cannot be used, because {}; remove it, and choose data.batch_size",
         error.reason());
  }
  session_.set_max_micro_batch(record_.result.fitted_batch->samples);
}

// ---- what the run continues from -----------------------------------------------------------------------------------

void RankRun::fork(store::Store store, const ForkRequest& request) {
  const store::RunRow parent = store::find_run(store, request.run, store::Trash::kIncluded);  // of a spool
  const Forked found = restore_fork(store, parent, request, session_);
  continue_from(found.state, /*resumed=*/false);
  record_.begin_fork(std::move(store), parent, found.info);
  record_.warn_of_all(found.warnings);
}

void RankRun::resume(store::Store store) {
  const store::RunRow row = store::find_run(store, request_.origin.resume);
  if (request_.origin.may_begin_again && store::list_states(store, row.id, /*for_resume=*/true).empty())
    return begin_again(std::move(store), row);
  const Resumed found = restore_run(store, row, request_.origin.state, session_);
  if (request_.origin.other_batches) state_.check_step_size(found.state);
  continue_from(found.state, /*resumed=*/true);
  RUN_CHECK(row.status != store::RunStatus::kDone || !state_.stopped_early, ErrorKind::kUsage,
            "nothing is left to train: the run stopped early at step {}, because {}; use `runner fork {} "
            "train.early_stopping.patience=N` with a larger N, or train.early_stopping=null, to continue in a new run",
            step(), early_stopping_text(recipe_, state_.patience), row.uid);
  const store::SeriesPosition recorded = recorded_before(found);
  const RunRecord::Earlier earlier{.from = &found.info,
                                   .recorded_ms = recorded.time_ms,
                                   .metrics = metrics_until(store, row, recorded),
                                   .last_step = last_recorded_step(store, row)};
  record_.begin_attempt(std::move(store), row, earlier);
  record_.warn_of_all(found.warnings);
  if (other_batch_) record_.warn(*other_batch_);
  if (!request_.origin.longer) return;
  if (const auto& swa = recipe_.train.swa;
      swa && (swa->start.unit == schema::Unit::kRuns || swa->every.unit == schema::Unit::kRuns))
    record_.warn(
        "train.swa: its start and interval in % move with the longer run, so the average is not that of an "
        "uninterrupted run; lengths in steps or epochs stay");
  if (const auto text = stretched_schedule(session_, earlier.metrics)) record_.warn(*text);
}

void RankRun::begin_again(store::Store store, const store::RunRow& row) {
  std::optional<Forked> found;
  if (request_.origin.fork != nullptr) {
    found = restore_fork(store, store::find_run(store, request_.origin.fork->run, store::Trash::kIncluded),
                         *request_.origin.fork, session_);
    continue_from(found->state, /*resumed=*/false);
  }
  const int64_t last_step = last_recorded_step(store, row);
  record_.begin_attempt(std::move(store), row, {.from = found ? &found->info : nullptr, .last_step = last_step});
}

void RankRun::continue_from(const Checkpoint& checkpoint, bool resumed) {
  resumed_ = resumed;
  if (resumed && recipe_.train.auto_batch_size) {
    session_.set_max_micro_batch(checkpoint.max_micro_batch);
    record_.result.fitted_batch = fitted_before(checkpoint.max_micro_batch, recipe_, session_.plan);
  }
  other_batch_ = state_.restore(checkpoint, resumed);
  callbacks_->checkpointer.resume();
  if (resumed && checkpoint.pending) callbacks_->unfinished.resume(checkpoint);
  if (session_.ranks == nullptr) return;
  restored_ = checkpoint;
  restored_->counters = session_.trainer.counters;
}

// ---- training ------------------------------------------------------------------------------------------------------

RunResult RankRun::execute() {
  record_.open_log_files();
  const std::string network = store::network_file_system(request_.recording.store);
  RUN_CHECK(network.empty(), ErrorKind::kStore,
            "a run cannot be recorded in {}, which is on a network file system ({}); set TMPDIR to a folder on a local "
            "disk",
            request_.recording.store.string(), network);
  // Open or create the store only after recipe and data have been checked.
  store::Store store = store::Store::open(request_.recording.store, store::Access::kWrite);
  store::wait_for_write_lock(store, request_.stop);
  request_.origin.fork != nullptr  ? fork(std::move(store), *request_.origin.fork)
  : request_.origin.resume.empty() ? record_.begin(std::move(store))
                                   : resume(std::move(store));
  request_.observer.on_start(record_.result.run, record_.result.name);
  warn_at_start();
  try {
    if (session_.ranks != nullptr) send_beginning_to_ranks();
    train();
  } catch (const Error& error) {
    end_with(error);
  } catch (const std::exception& error) {
    end_with(error_of(error));
  }
  if (callbacks_->profiling) callbacks_->profiling->end_alone();
  if (callbacks_->trackers) callbacks_->trackers->end();
  device_.record_graphs();
  if (record_.result.error) device_.record_gpus(/*ranks=*/nullptr);
  finish();
  return std::move(record_.result);
}

void RankRun::follow() {
  const SharedStart beginning = receive_beginning(*session_.ranks, session_.trainer);
  state_.records_batches = beginning.records_batches;
  record_.begin_without_store(beginning.run, beginning.name, beginning.metrics);
  session_.set_max_micro_batch(beginning.max_micro_batch);
  if (beginning.state) {
    session_.schedule.restore(beginning.state->plateau);
    continue_from(*beginning.state, beginning.resumed);
  }
  try {
    train();
  } catch (const Error& error) {
    if (!all_ranks_stopped(error)) throw;
    wait_for_other_ranks();
  }
}

void RankRun::warn_at_start() {
  for (const std::string& text : request_.warnings) record_.warn(text, /*is_shown=*/request_.warnings_are_shown);
  warn_of_fit();
  record_.warn_of_all(session_.data.warnings);
  record_.warn_of_all(session_.plan_warnings());
}

void RankRun::warn_of_fit() {
  if (!record_.result.fitted_batch) return;
  const FittedBatch& fitted = *record_.result.fitted_batch;
  for (const BatchAttempt& attempt : fitted.attempts)
    record_.event(
        store::Level::kInfo, "batch_size",
        json::line(json::Object{{"samples", attempt.samples}, {"bytes", attempt.bytes}, {"fits", attempt.fits}}));
  if (fitted.attempts.size() < 2) return;
  const BatchAttempt& whole = fitted.attempts.front();
  const bool refused = session_.device->has_own_memory();  // before its full size was known
  record_.warn(fmt::format(
      "train.auto_batch_size: a micro-batch of {0} needs {1}{2}, limit {4} per {3}; using {5} × {6} accumulation steps",
      whole.samples, refused ? "at least " : "", schema::readable_size(whole.bytes), refused ? "GPU" : "process",
      schema::readable_size(fitted.memory_bytes), fitted.samples, fitted.accumulation));
}

void RankRun::send_beginning_to_ranks() {
  send_beginning(*session_.ranks, session_.trainer,
                 {.run = record_.result.run,
                  .name = record_.result.name,
                  .records_batches = state_.records_batches,
                  .metrics = record_.points().ranges(),
                  .state = restored_,
                  .max_micro_batch = session_.trainer.accumulation.max_micro_batch,
                  .resumed = resumed_});
}

void RankRun::train() {
  device_.begin();
  const std::optional<PendingEvents> pending = callbacks_->unfinished.pending();
  if (pending && record_.is_recorded_here()) record_.checkpoints().forget();
  TrainLoop loop(state_, Callbacks(callbacks_->in_order()));
  const bool ended = loop.run(pending);
  device_.record_gpus(session_.ranks);
  // Not included in any checkpoint: a longer run continues as if the event had not happened.
  if (ended && state_.reached_end()) loop.end_run();
  wait_for_other_ranks();
  record_.result.status = ended ? store::RunStatus::kDone : store::RunStatus::kInterrupted;
  record_.result.exit_code = ended ? 0 : exit_code(ErrorKind::kInterrupted);
  if (ended && !state_.reached_end() && record_.is_recorded_here()) record_.fail_with(returned_early());
}

// The last state is saved, so that the run can be resumed with a corrected hook.
Error RankRun::returned_early() const {
  return {ErrorKind::kRun,
          fmt::format("the hook's train returned at step {} of {}; loop over acc:epochs() without a number, or call "
                      "acc:set_trigger() where the run is to end early",
                      step(), session_.length.total_steps),
          hooks_->line_of(HookEntry::kTrain)};
}

// ---- the end -------------------------------------------------------------------------------------------------------

void RankRun::end_with(const Error& error) {
  const bool asked_to_stop = state_.control.asked_to_stop();
  if (!callbacks_->unfinished.save(asked_to_stop ? "interrupt" : "failed") || !state_.control.asked_to_stop())
    return record_.fail_with(error);
  record_.result.status = store::RunStatus::kInterrupted;
  record_.result.exit_code = exit_code(ErrorKind::kInterrupted);
  if (all_ranks_stopped(error)) return wait_for_other_ranks();
  const std::string text = fmt::format("interrupted at the end of step {}: {}", step(), error.what());
  record_.warn(text);
  if (session_.ranks != nullptr) session_.ranks->fail(text, error.where());  // no rank may wait for this one any more
}

// Whether it happened between two batches of an evaluation.
bool RankRun::all_ranks_stopped(const Error& error) const {
  return error.kind() == ErrorKind::kInterrupted && (session_.ranks == nullptr || state_.control.agreed_to_stop());
}

void RankRun::wait_for_other_ranks() const {
  if (session_.ranks != nullptr) session_.ranks->barrier({"the end", step()});
}

void RankRun::finish() {
  callbacks_->warnings.take_from_device();
  record_.warn_of_all(session_.device->analysis());
  if (const auto text = session_.trainer.lost_gradient().warning()) record_.warn(*text);
  session_.trainer.stepper().read_counters();
  const Counters& counters = session_.trainer.counters;
  RunResult& result = record_.result;
  result.epochs = state_.position.epoch;
  result.optimizer_steps = counters.steps;
  result.skipped_steps = counters.steps - counters.applied;
  if (session_.trainer.builder().layout().skips_unlabelled() && !session_.trainer.loss_scale())
    result.unlabelled_steps = result.skipped_steps - state_.skipped_before - state_.skipped;
  result.samples = counters.samples;
  result.repeated_samples = counters.repeats;
  result.input = state_.input;
  result.graphs = device_.graph_use();
  if (state_.stopped_early) result.reason = "stopped early: " + early_stopping_text(recipe_, state_.patience);
  if (state_.control.stopped_by_hook()) result.reason = fmt::format("stopped by the hook at step {}", step());
  if (!result.error) warn_of_left_out_batches();
  if (session_.has_custom_loop) warn_of_little_training();
  if (counters.steps > 0 && counters.applied == 0 && session_.trainer.loss_scale()) warn_of_no_update();
  predict_memory();
  record_.finish();
}

// Steps that have not run are compiled for it, which a hook could notice, and which may need too much memory.
void RankRun::predict_memory() {
  RunResult& result = record_.result;
  if (result.status != store::RunStatus::kDone || hooks_ != nullptr) return;
  try {
    result.predicted_memory = predicted_peak(session_, result.peak_memory.evaluation > 0);
  } catch (const backends::OutOfMemory&) {
    return;
  }
  if (result.peak_memory.saving == 0) result.predicted_memory->saving = 0;
}

// With a loss scaler.
void RankRun::warn_of_no_update() {
  const int64_t steps = session_.trainer.counters.steps, not_finite = state_.skipped_before + state_.skipped;
  if (not_finite == steps)
    return record_.warn(
        fmt::format("no step has updated the weights: {} of {} steps were skipped: not finite", steps, steps));
  record_.warn(fmt::format(
      "no step has updated the weights: the gradients overflowed in fp16 in {}; set a smaller scaler.init_scale, or "
      "train longer: the scale falls after each overflow",
      not_finite == 0 ? "each of them"
                      : fmt::format("{} of {}, and {} were not finite", steps - not_finite, steps, not_finite)));
}

// Unless an evaluation has just done so.
void RankRun::warn_of_left_out_batches() {
  const auto text = warning_of_left_out_batches(session_.trainer.arrays(), session_.trainer.model().parameters);
  const auto has_text = [&](const std::string& warning) { return warning.ends_with(*text); };
  if (text && std::ranges::none_of(record_.result.warnings, has_text)) record_.warn(*text);
}

void RankRun::warn_of_little_training() {
  const Counters& counters = session_.trainer.counters;
  const bool updated = std::ranges::any_of(counters.updates, [](const auto& one) { return one.second > 0; });
  if (counters.applied > 0 && !updated)
    record_.warn(fmt::format(
        "no optimizer has stepped in {}: the weights are unchanged; call acc.optimizer:step() after acc:backward(loss)",
        schema::length_text(step(), "steps")));
}

}  // namespace runner::train
