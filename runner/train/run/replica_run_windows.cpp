#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "backends/gpu/gpu_device.h"
#include "runner/train/engine/device_rules.h"
#include "runner/train/engine/local_average.h"
#include "runner/train/engine/parameter_use.h"
#include "runner/train/engine/reduction.h"
#include "runner/train/engine/weight_check.h"
#include "runner/train/loop/custom_loop.h"
#include "runner/train/loop/declared_loop.h"
#include "runner/train/loop/wishes.h"
#include "runner/train/run/checkpoint.h"
#include "runner/train/run/replica_run.h"
#include "schema/base/error.h"

namespace runner::train {

void ReplicaRun::agree(uint64_t decisions) {
  if (session_.ranks == nullptr || !whole_ || !(hooks_ || session_.trainer.is_local())) return;
  check_saves();
  const Wishes all = agreed({.interrupted = asked_to_stop(),
                             .stop = stop_wanted_,
                             .save = save_wanted_,
                             .drawn = hooks_ ? hooks_->drawn() : 0,
                             .accumulation = next_accumulation_,
                             .decisions = decisions},
                            *session_.ranks, step());
  agreed_to_stop_ = all.interrupted;
  stopped_by_hook_ = all.stop;
  save_wanted_ = all.save;
  if (hooks_) hooks_->set_drawn(all.drawn);
}

void ReplicaRun::average(bool due) {
  whole_ = due;
  if (!due) return;
  session_.trainer.note_state_use();
  average_weights(session_.trainer.arrays(), *session_.ranks, {"weights", step() + 1});
  session_.trainer.means().gather();
}

void ReplicaRun::check_weights() {
  session_.trainer.note_state_use();
  check_alike(digests_of(session_.trainer.arrays(), session_.trainer.model().parameters), *session_.ranks,
              {"digests of weights", step()});
}

void ReplicaRun::adopt_accumulation() {
  if (next_accumulation_ == session_.accumulation() || !whole_) return;
  session_.set_accumulation(next_accumulation_);
  session_.count_steps_from(position_, 0);
}

namespace {

// A device loader has a queue on the host and one on the device.
int64_t batches_ahead(const schema::Recipe& recipe) {
  const bool queues = device_rules(recipe).has_loader && recipe.data.prefetch > 0;
  const int64_t queued = recipe.tpu.loader_prefetch_size + recipe.tpu.device_prefetch_size;
  return queues ? std::max(recipe.data.prefetch, queued) : recipe.data.prefetch;
}

int64_t loader_threads(const schema::Recipe& recipe) {
  return device_rules(recipe).has_loader ? recipe.tpu.host_to_device_transfer_threads : 1;
}

}  // namespace

// A hook may use collectives in any step, so it is called in each, even on a rank without samples.
data::LoaderSpec ReplicaRun::loader_spec() {
  const bool of_hook = has(hooks_.get(), HookEntry::kTrainingStep);
  return {.shuffle = recipe_.data.shuffle,
          .seed = session_.data_seed(),
          .replica = session_.rank(),
          .from = position_,
          .prefetch = batches_ahead(recipe_),
          .threads = loader_threads(recipe_),
          .transform = hooks_ ? hooks_->transform() : nullptr,
          .without_repeats = of_hook,
          .never_empty = of_hook || session_.own_loop || session_.trainer.is_local(),
          .use = &input_use_};
}

void ReplicaRun::train() {
  if (session_.gpu != nullptr) session_.gpu->take_predicted_time();  // what came before is not part of a step
  first_step_ = step();
  log_->start();
  if (tracked()) hooks_->track_begin();
  on(HookEvent::kRunBegin);
  if (session_.ranks != nullptr) agreed_to_stop_ = session_.ranks->any(asked_to_stop(), {"the first step", step()});
  agree();
  if (window_.batches == 0) adopt_accumulation();
  if (unfinished_) {
    if (record_.is_recorded_here()) record_.states().forget();
    finish_window(*std::exchange(unfinished_, std::nullopt)->end, /*logged=*/true);
  }
  session_.own_loop ? CustomLoop(session_, *hooks_, *this).run() : DeclaredLoop(session_, *this).run();
  if (!whole_) average(/*due=*/true);
  check_saves();
  const bool done = finished() || (session_.own_loop && !interrupted());
  save(done ? "end" : "interrupt");
  if (record_.is_recorded_here()) record_.states().wait();
  if (profiler_) keep_trace(profiler_->end(session_.ranks));
  keep_gpu_account(session_.ranks);
  // Not included in any checkpoint: a longer run continues as if the event had not happened.
  if (done) on(HookEvent::kRunEnd);
  meet_at_the_end();
  record_.result.status = done ? store::RunStatus::kDone : store::RunStatus::kInterrupted;
  record_.result.exit_code = done ? 0 : exit_code(ErrorKind::kInterrupted);
}

// If an epoch begins, its event is repeated when the run continues from there.
WindowStart ReplicaRun::begin_window() {
  settle();
  if (hooks_ && !std::exchange(has_begun_, true)) hooks_->check_registered();
  WindowStart start = here();
  try {
    if (position_.begins_epoch()) on(HookEvent::kEpochBegin);
    if (hooks_ && (session_.own_loop || position_.begins_epoch())) agree();
  } catch (...) {
    if (!session_.own_loop) keep_before(start);
    throw;
  }
  adopt_accumulation();
  if (position_.begins_epoch()) start.recorded = mark();
  if (hooks_) start.recorded.drawn = hooks_->drawn();
  return start;
}

WindowStart ReplicaRun::here() {
  const HookMark hook = mark();
  return {.at = position_,
          .windows = step(),
          .batches = session_.trainer.counters.batches,
          .carries_gradients = session_.trainer.arrays().holds_any_gradients(),
          .hook = hook,
          .recorded = hook};
}

// A skipped optimizer step is explained only once, and a hook's loop explains its own.
HookMark ReplicaRun::mark() {
  if (!hooks_) return {};
  HookMark mark{.kept = {}, .drawn = hooks_->drawn()};
  const bool skips = recipe_.train.on_nan == schema::OnNan::kSkip;
  const bool is_used = !skips || (!session_.own_loop && record_.result.skipped_steps == 0);
  if (!is_used || (hook_keeps_much_ && !position_.begins_epoch())) return mark;
  mark.kept = hooks_->state();
  hook_keeps_much_ = mark.kept->size() > kMostHookState;
  return mark;
}

void ReplicaRun::inside_window(const TrainingWindow& window) {
  window_ = window;
  agreed_to_stop_ |= window.interrupted;
  position_ = window.next;
  if (records_batches_ && session_.ranks != nullptr)
    window_.batch_digest = digest_of_all(window.batch_digest, *session_.ranks, {"batches", step()});
  agree();
  const Reached before = saved_until_;
  saved_until_ = {step(), position_.epoch, session_.trainer.counters.samples + window.samples};
  save_due_ = save_every_.due(before, saved_until_);
  if (save_due_) save("schedule");
  record_.collect();
}

bool ReplicaRun::may_end_before_device(const TrainingWindow& window, const WindowStart& start) {
  const Reached after{step(), window.next.epoch, session_.trainer.counters.samples};
  const bool is_read = !record_.result.first_step_seconds || records_batches_ || log_->is_due(reached_, after) ||
                       save_every_.due(saved_until_, after) || save_wanted_ || finished() || asked_to_stop() ||
                       next_accumulation_ != session_.accumulation();
  const bool is_seen = window.ends_epoch || tracked() || (hooks_ && hooks_->has(HookEvent::kStepEnd));
  return !is_read && !is_seen && session_.trainer.may_learn_late() && (!hooks_ || start.hook.kept);
}

void ReplicaRun::end_window(const TrainingWindow& window) {
  window_ = {};
  agreed_to_stop_ |= window.interrupted;
  for (const auto& [name, value] : std::exchange(points_, {})) log(name, value);
  const Reached before = reached_;
  reached_ = {step(), window.next.epoch, session_.trainer.counters.samples};
  position_ = window.next;
  if (session_.trainer.is_local()) average(average_every_.due(before, reached_) || finished());
  if (whole_) session_.trainer.steps().compare_graphs();
  if (whole_ && session_.ranks != nullptr && check_every_.due(before, reached_)) check_weights();
  if (hooks_) agree(window.decisions);
  log_->take(window, before, reached_);
  save_due_ = whole_ && save_every_.due(std::exchange(saved_until_, reached_), reached_);
  if (records_batches_) record_batches(window.batch_digest);
  if (!record_.result.first_step_seconds) record_.first_window();
  warn_of_unused();
  pass_on_warnings();
  const bool logged = log_->logging_due() || finished();
  if (logged) log_->log();
  const bool evaluation = log_->evaluates() && whole_ && (log_->evaluation_due() || finished());
  finish_window({.evaluation = evaluation, .ends_epoch = window.ends_epoch}, logged);
}

void ReplicaRun::finish_window(WindowEnd end, bool logged) {
  keep_unfinished(end);
  if (end.evaluation) {
    evaluate();
    end = {.evaluated = true, .ends_epoch = end.ends_epoch};
    keep_unfinished(end);
  }
  if (end.evaluated) on(HookEvent::kEvaluation);
  on(HookEvent::kStepEnd);
  if (end.ends_epoch) on(HookEvent::kEpochEnd);
  if (end.ends_epoch && !position_.begins_epoch()) on(HookEvent::kEpochBegin);
  agree();
  unfinished_.reset();
  adopt_accumulation();
  if (stops() && !logged) log_->log();
  if (tracked()) track();
  const char* const reason = whole_ ? reason_to_save() : nullptr;
  if (session_.own_loop) {
    if (due_state_ == nullptr) due_state_ = reason;
  } else if (reason != nullptr) {
    save(reason);
  }
  record_.collect();
  request_.observer.on_step(progress());
  if (profiler_) keep_trace(profiler_->end_step(step(), session_.ranks));
}

void ReplicaRun::count_predicted(backends::gpu::PredictedTime GpuDeviceUse::*phase) {
  if (session_.gpu != nullptr) gpu_use_.*phase += session_.gpu->take_predicted_time();
}

void ReplicaRun::keep_gpu_account(backends::Collectives* ranks) {
  if (session_.gpu == nullptr) return;
  count_predicted(&GpuDeviceUse::training);
  gpu_use_.steps = first_step_ ? step() - *first_step_ : 0;
  record_.result.gpu = ranks != nullptr
                           ? gpu_use_of_all(*session_.gpu, gpu_use_, *ranks, {"accounts of devices", step()})
                           : gpu_use(*session_.gpu, gpu_use_);
  record_.keep_gpu_account();
}

void ReplicaRun::keep_trace(const std::string& events) {
  if (events.empty()) return;
  record_.keep_trace(events);
  if (profiler_->left_out() > 0)
    record_.warn(
        fmt::format("a cycle of profile keeps no more spans of a process: {} are left out; make profile.active smaller",
                    profiler_->left_out()));
}

void ReplicaRun::pass_on_warnings() {
  record_.warn_of_all(session_.device->take_warnings());
}

void ReplicaRun::warn_of_unused() {
  const std::string& names = session_.trainer.steps().unused();
  if (names.empty() || std::exchange(warned_of_unused_, true)) return;
  // With a hook, the losses of other ranks may depend on it.
  const bool alone = session_.ranks != nullptr && hooks_ != nullptr;
  record_.warn(fmt::format("the loss{} does not depend on {}: {}; freeze what is not to be trained (model.freeze)",
                           alone ? " of process 0" : "", names,
                           skips_unused(recipe_.comm) ? "a step updates only what a loss of it depends on"
                           : alone ? "its part of the gradient is zero there, and weight decay goes on"
                                   : "the gradient is zero there, and weight decay goes on"));
}

void ReplicaRun::record_batches(uint64_t digest) {
  if (session_.ranks != nullptr) digest = digest_of_all(digest, *session_.ranks, {"batches", step()});
  record_.points().add(kBatchDigest, step(), static_cast<double>(digest >> 11));
}

void ReplicaRun::evaluate() {
  const backends::ScopedSpan span(backends::SpanKind::kEvaluation, "evaluate");
  measure(&PeakMemory::training);
  count_predicted(&GpuDeviceUse::training);
  const size_t before = session_.device->temporary_bytes();
  const std::map<std::string, double> metrics = log_->evaluate([this] { return stops_evaluation(); });
  session_.trainer.steps().compare_graphs();
  measure(&PeakMemory::evaluation);
  count_predicted(&GpuDeviceUse::evaluation);
  const size_t little = before / 8;  // not worth the page faults of allocating it again
  if (session_.device->temporary_bytes() > before + little) session_.device->release_temporary();
  request_.observer.on_evaluation(progress(), metrics);
}

bool ReplicaRun::stops_evaluation() {
  if (!unfinished_) return false;
  if (session_.ranks == nullptr) return asked_to_stop();
  constexpr int64_t kAgreeEvery = 8;  // batches: makes the cost of synchronising negligible
  if (evaluated_batches_++ % kAgreeEvery != 0) return false;
  int64_t stop = asked_to_stop();
  session_.ranks->all_reduce({backends::DType::kI64, backends::Shape{1}}, std::as_writable_bytes(std::span(&stop, 1)),
                             backends::Reduction::kMax, {"interrupts of an evaluation", step()});
  agreed_to_stop_ = stop != 0;
  return agreed_to_stop_;
}

void ReplicaRun::measure(int64_t PeakMemory::*phase, int64_t copies) {
  PeakMemory& peaks = record_.result.peak_memory;
  if (session_.gpu == nullptr) {
    peaks.*phase = std::max(peaks.*phase, session_.trainer.memory().total() + copies);
    return;
  }
  // Copies for checkpoints are on the host. Memory reserved by an evaluation stays reserved, so training includes it.
  if (phase == &PeakMemory::training && peaks.evaluation > 0) return;
  peaks.*phase = session_.gpu->memory_statistics().all.reserved_bytes.peak;
}

void ReplicaRun::track() {
  const std::map<std::string, double> points = record_.points().at(step());
  if (!points.empty()) hooks_->track(points, step());
}

void ReplicaRun::on(HookEvent event) {
  if (hooks_ && hooks_->has(event)) hooks_->on(event);
}

void ReplicaRun::save_artifact(const std::string& name, std::string_view kind, std::vector<std::byte> bytes) {
  record_.save_artifact(name, kind, std::move(bytes));
}

void ReplicaRun::save_model(const std::string& name, int64_t max_shard_size) {
  for (FileBytes& file : model_files(session_.trainer, name, max_shard_size))
    save_artifact(file.name, "model", std::move(file.bytes));
}

std::optional<double> ReplicaRun::metric(const std::string& name) const {
  if (!record_.begun()) return std::nullopt;
  const double value = record_.points().newest(name);
  return std::isnan(value) ? std::nullopt : std::optional(value);
}

Observer::Progress ReplicaRun::progress() const {
  return {.epoch = position_.epoch,
          .epochs = recipe_.train.epochs.value_or(0),
          .step = step(),
          .steps = session_.scale.total_steps,
          .samples = log_->samples(),
          .loss = record_.points().newest("train/loss")};
}

}  // namespace runner::train
