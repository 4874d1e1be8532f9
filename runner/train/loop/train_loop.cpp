#include "runner/train/loop/train_loop.h"

#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "backends/runtime/available_memory.h"
#include "backends/runtime/spans.h"
#include "runner/train/engine/rank_weights.h"
#include "runner/train/engine/reduction.h"
#include "runner/train/loop/custom_loop.h"
#include "runner/train/loop/declared_loop.h"
#include "runner/train/step/device_rules.h"
#include "schema/base/error.h"

namespace runner::train {

TrainLoop::TrainLoop(TrainState& state, Callbacks callbacks)
    : state_(state),
      session_(state.session),
      hooks_(state.hooks),
      control_(state.control),
      callbacks_(std::move(callbacks)),
      average_every_(
          session_.recipe.train.local_sgd ? std::optional(session_.recipe.train.local_sgd->every) : std::nullopt,
          session_.length),
      check_every_(session_.recipe.comm.check_every, session_.length) {}

// ---- the run -------------------------------------------------------------------------------------------------------

bool TrainLoop::run(const std::optional<PendingEvents>& pending) {
  begin_run();
  control_.agree_to_stop("the first step");
  sync();
  if (state_.result.batches == 0) state_.adopt_accumulation();
  if (!session_.has_custom_loop) state_.is_as_restored = false;  // events from now on belong to steps
  if (!pending && state_.result.batches == 0) callbacks_.call(&Callback::on_requested_save);
  if (pending) run_events(*pending);
  if (!pending && step() == 0 && session_.recipe.eval.at_start) evaluate_at_start();
  session_.has_custom_loop ? CustomLoop(state_, *hooks_, *this).run() : DeclaredLoop(state_, *this).run();
  if (!state_.weights_agree) average(/*due=*/true);
  control_.check_saves();
  const bool ended = state_.finished() || (session_.has_custom_loop && !state_.interrupted());
  if (ended && state_.reached_end() && state_.evaluation_is_stale) evaluate_again();
  callbacks_.call(&Callback::on_train_end, ended);
  return ended;
}

// A continued run repeats on_run_begin, which must not advance the random numbers of the steps after it.
void TrainLoop::begin_run() {
  const int64_t drawn = state_.continues_hook ? hooks_->drawn() : 0;
  callbacks_.call(&Callback::on_run_begin);
  if (state_.continues_hook) hooks_->set_drawn(drawn);
}

// A checkpoint that the event requests has the random numbers of a run without the event.
void TrainLoop::end_run() {
  const int64_t drawn = hooks_ != nullptr ? hooks_->drawn() : 0;
  callbacks_.call(&Callback::on_run_end);
  if (hooks_ == nullptr) return;
  hooks_->set_drawn(drawn);
  sync();
  callbacks_.call(&Callback::on_requested_save);
}

// ---- before and after an optimizer step ----------------------------------------------------------------------------

namespace {

// Whether samples are decoded or augmented when they are read.
bool is_costly_to_read(const data::Data& data) {
  return data.augmenter != nullptr || data.encoding.images.has_value();
}

// As many as the rank has for computing. Each assembles a batch of its own: those that are not prefetched anyway may
// use a part of the available memory.
int64_t threads_for_images(const Session& session, int64_t prefetch) {
  constexpr int64_t kMemoryPart = 16;
  const int64_t batch_bytes =
      session.plan.max_batch() * session.data.encoding.feature_shape.elements() * static_cast<int64_t>(sizeof(float));
  const int64_t share = static_cast<int64_t>(backends::available_memory()) / kMemoryPart / session.recipe.num_processes;
  return std::min<int64_t>(threads_of(session.recipe, session.ranks), std::max(prefetch, share / batch_bytes));
}

}  // namespace

// A hook may use collectives in any step, so it is called in each, even on a rank without samples.
data::LoaderSpec TrainLoop::loader_spec() {
  const schema::Recipe& recipe = session_.recipe;
  const bool of_hook = has(hooks_, HookEntry::kTrainingStep);
  std::shared_ptr<data::Transform> transform = hooks_ != nullptr ? hooks_->transform() : nullptr;
  const int64_t prefetch = batches_ahead(recipe);
  const bool shares_work = prefetch > 0 && transform == nullptr && is_costly_to_read(session_.data);
  return {
      .shuffle = recipe.data.shuffle,
      .by_length = recipe.data.group_by_length,
      .seed = session_.data_seed(),
      .rank = session_.rank(),
      .from = state_.position,
      .prefetch = prefetch,
      .threads = std::max<int64_t>(loader_threads(recipe), shares_work ? threads_for_images(session_, prefetch) : 1),
      .augmenter = session_.data.augmenter,
      .transform = std::move(transform),
      .without_repeats = of_hook,
      .never_empty =
          of_hook || session_.has_custom_loop || is_local() || session_.trainer.builder().exchanges_in_forward(),
      .use = &state_.input};
}

bool TrainLoop::wait_for_batch(data::Loader& loader, bool is_new) {
  const bool may_shuffle = is_new || state_.position.begins_epoch();
  if (may_shuffle && session_.ranks != nullptr && state_.weights_agree) {
    loader.wait([this] { return control_.must_end(); });
    control_.agree_to_stop("the first batch");
  }
  return !state_.interrupted() && loader.wait([this] { return state_.interrupted(); });
}

// If an epoch begins, its event is repeated when the run continues from there.
StepStart TrainLoop::begin_step() {
  close_step();
  if (hooks_ != nullptr && !std::exchange(has_begun_, true)) hooks_->check_registered();
  StepStart start = here();
  const bool begins_epoch = state_.position.begins_epoch();
  try {
    if (begins_epoch) callbacks_.call(&Callback::on_epoch_begin);
    if (hooks_ != nullptr && (session_.has_custom_loop || begins_epoch)) sync();
  } catch (...) {
    if (!session_.has_custom_loop) keep_before(start);
    throw;
  }
  state_.adopt_accumulation();
  if (begins_epoch) start.recorded = mark();
  if (hooks_ != nullptr) start.recorded.drawn = hooks_->drawn();
  return start;
}

StepStart TrainLoop::here() {
  const HookMark hook = mark();
  return {.at = state_.position,
          .steps = step(),
          .batches = session_.trainer.counters.batches,
          .carries_gradients = session_.trainer.arrays().holds_any_gradients(),
          .hook = hook,
          .recorded = hook};
}

// A skipped optimizer step is explained only once, and a hook's loop explains its own.
HookMark TrainLoop::mark() {
  if (hooks_ == nullptr) return {};
  HookMark mark{.kept = {}, .drawn = hooks_->drawn()};
  const bool skips = session_.recipe.train.on_nan == schema::OnNan::kSkip;
  const bool is_used = !skips || (!session_.has_custom_loop && state_.skipped == 0);
  if (!is_used || (hook_keeps_much_ && !state_.position.begins_epoch())) return mark;
  mark.kept = hooks_->state();
  hook_keeps_much_ = mark.kept->size() > kMaxHookState;
  return mark;
}

uint64_t TrainLoop::digest_of_ranks(uint64_t digest) const {
  if (!state_.records_batches || session_.ranks == nullptr) return digest;
  return digest_of_all(digest, *session_.ranks, {"batches", step()});
}

void TrainLoop::end_substep() {
  StepResult& result = state_.result;
  control_.agree(result.interrupted);
  state_.position = result.next;
  result.batch_digest = digest_of_ranks(result.batch_digest);
  sync();
  callbacks_.call(&Callback::on_substep_end);
}

bool TrainLoop::may_run_ahead(const StepResult& result, const StepStart& start) const {
  const Progress after{step(), result.next.epoch, session_.trainer.counters.samples};
  const bool is_known = hooks_ == nullptr || start.hook.kept.has_value();
  return is_known && session_.trainer.stepper().may_resolve_late() && !result.ends_epoch && !state_.records_batches &&
         !state_.finished() && !control_.asked_to_stop() && state_.next_accumulation == session_.accumulation() &&
         !callbacks_.any_needs_results(after);
}

void TrainLoop::end_step(StepResult result) {
  state_.is_as_restored = false;
  state_.result = {};
  control_.agree(result.interrupted);
  callbacks_.call(&Callback::on_log, std::exchange(points_, {}));
  const Progress before = state_.reached;
  state_.reached = {step(), result.next.epoch, session_.trainer.counters.samples};
  state_.position = result.next;
  if (is_local()) average(average_every_.due(before, state_.reached) || state_.finished());
  if (state_.weights_agree) session_.trainer.steps().compare_graphs();
  if (state_.weights_agree && session_.ranks != nullptr && check_every_.due(before, state_.reached)) check_weights();
  if (hooks_ != nullptr) sync(result.call_digest);
  result.batch_digest = digest_of_ranks(result.batch_digest);
  state_.evaluation = {};
  callbacks_.call(&Callback::on_optimizer_step, result, before);
  run_events({.evaluation = state_.evaluation.due, .ends_epoch = result.ends_epoch});
}

void TrainLoop::run_events(const PendingEvents& pending) {
  run_evaluation_events(pending);
  callbacks_.call(&Callback::on_step_end);
  if (pending.ends_epoch) callbacks_.call(&Callback::on_epoch_end);
  if (pending.ends_epoch && !state_.position.begins_epoch()) callbacks_.call(&Callback::on_epoch_begin);
  sync();
  state_.adopt_accumulation();
  callbacks_.call(&Callback::on_step_done);
}

void TrainLoop::run_evaluation_events(PendingEvents pending) {
  callbacks_.call(&Callback::on_pending, pending);
  if (pending.evaluation) {
    evaluate();
    pending = {.evaluated = true, .ends_epoch = pending.ends_epoch};
    callbacks_.call(&Callback::on_pending, pending);
  }
  if (pending.evaluated) callbacks_.call(&Callback::on_evaluate);
}

void TrainLoop::evaluate() {
  const backends::ScopedSpan span(backends::SpanKind::kEvaluation, "evaluate");
  state_.evaluation.done = true;
  callbacks_.call(&Callback::on_evaluation_due);
}

void TrainLoop::evaluate_at_start() {
  state_.evaluation.is_extra = true;
  evaluate();
  if (state_.evaluation.done) callbacks_.call(&Callback::on_evaluate);
  sync();
}

// After the last optimizer step, if weights were loaded since its evaluation.
void TrainLoop::evaluate_again() {
  if (!session_.data.eval) return;
  state_.evaluation = {.due = true, .is_extra = true};
  run_evaluation_events({.evaluation = true});
  sync();
  callbacks_.call(&Callback::on_step_done);
}

void TrainLoop::close_step() {
  if (state_.weights_agree) callbacks_.call(&Callback::on_step_closed);
}

// ---- ranks ---------------------------------------------------------------------------------------------------------

void TrainLoop::sync(uint64_t call_digest) {
  if (session_.ranks == nullptr || !state_.weights_agree || !(hooks_ != nullptr || is_local())) return;
  control_.sync(state_.next_accumulation, call_digest);
}

void TrainLoop::average(bool due) {
  state_.weights_agree = due;
  if (!due) return;
  session_.trainer.on_host_event(backends::HostEvent::kStateUse);
  average_weights(session_.trainer.arrays(), *session_.ranks, {"weights", step() + 1});
  session_.trainer.means().gather();
}

void TrainLoop::check_weights() {
  session_.trainer.on_host_event(backends::HostEvent::kStateUse);
  check_identical(digests_of(session_.trainer.arrays(), session_.trainer.model().parameters), *session_.ranks,
                  {"digests of weights", step()});
}

// ---- failures ------------------------------------------------------------------------------------------------------

void TrainLoop::not_finite(const NotFinite& found, const StepStart& start, bool untouched) {
  if (session_.recipe.train.on_nan == schema::OnNan::kSkip) {
    if (++state_.skipped == 1)
      warn(fmt::format("step {} was skipped: {}{}", step() + session_.has_custom_loop, found.what,
                       found.where.known() ? fmt::format(" ({})", found.where.to_string()) : ""));
    return;
  }
  state_.set_position(start.at);
  session_.trainer.counters.batches = start.batches;
  // A step that updated nothing leaves the previous model on the device. It is saved if it was finite. But the forward
  // pass of the step has moved running statistics.
  const bool is_whole = untouched && !start.carries_gradients && state_.weights_agree &&
                        !session_.trainer.model().parameters.moves_buffers();
  try {
    if (step() > 0 && is_whole) callbacks_.call(&Callback::on_step_failed, "not finite", start);
  } catch (const Error&) {  // the thrown error reports it
  }
  session_.trainer.stepper().read_counters();
  throw Error(ErrorKind::kRun,
              what_failed(found, step() + 1, session_.trainer.counters.applied > 0, has(hooks_, HookEntry::kTransform)),
              found.where);
}

// Without a saved hook state the earlier one is unknown, and an optimizer step that already counts is no longer in
// progress. Other ranks may still compute gradients; nothing has updated what rank 0 saves.
void TrainLoop::keep_before(const StepStart& start) {
  const bool is_known = hooks_ == nullptr || start.hook.kept;
  const bool is_whole = !start.carries_gradients && state_.weights_agree && !is_local() &&
                        !session_.trainer.model().parameters.moves_buffers();
  if (step() == 0 || step() != start.steps || !is_known || !is_whole) return;
  state_.set_position(start.at);
  session_.trainer.counters.batches = start.batches;
  session_.trainer.metrics.end_step(/*finite=*/false);
  try {
    callbacks_.call(&Callback::on_step_failed, "failed", start);
  } catch (const std::exception&) {  // the earlier failure explains why the run ends
  }
}

}  // namespace runner::train
