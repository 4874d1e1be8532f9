#include <algorithm>
#include <exception>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "runner/train/run/checkpoint.h"
#include "runner/train/run/replica_run.h"
#include "runner/train/run/resuming.h"
#include "runner/train/run/state_sharing.h"
#include "schema/base/error.h"

namespace runner::train {

const char* ReplicaRun::reason_to_save() {
  if (finished()) return nullptr;
  if (std::exchange(save_wanted_, false)) return "hook";
  if (save_due_) return "schedule";
  return log_->evaluated() && record_.is_recorded_here() && record_.states().is_among_best(record_.points().at(step()))
             ? "best"
             : nullptr;
}

RunState ReplicaRun::state() {
  session_.trainer.learn();
  return {.position = position_,
          .window = window_,
          .reached_epoch = reached_.epochs,
          .end = std::nullopt,
          .accumulation = session_.accumulation(),
          .next_accumulation = next_accumulation_,
          .used = session_.used_before(position_),
          .global_batch = session_.plan.global_batch_size(),
          .extra_steps = session_.extra_steps(),
          .most_at_once = session_.trainer.parts.most_at_once,
          .counters = session_.trainer.counters,
          .plateau = session_.schedule.plateau(),
          .patience = log_->patience(),
          .metrics = session_.trainer.metrics,
          .hook = hooks_ ? hooks_->state() : "",
          .encoding = session_.data.encoding,
          .train_data = session_.train_fingerprint(),
          .eval_data = session_.eval_fingerprint()};
}

void ReplicaRun::save(const char* reason) {
  measure(&PeakMemory::training);
  if (record_.is_recorded_here()) save(reason, state());
}

void ReplicaRun::save(const char* reason, const RunState& state) {
  record_.keep_account(session_.tpu, graphs());
  keep_gpu_account(/*ranks=*/nullptr);
  StateKeeper& states = record_.states();
  states.save(session_.trainer, state, reason, stays(),
              window_.batches == 0 ? record_.points().at(step()) : std::map<std::string, double>());
  count_predicted(&GpuDeviceUse::saving);
  measure(&PeakMemory::saving, copies_for_state(session_.trainer.arrays().memory(), states.largest_state()));
}

void ReplicaRun::keep_unfinished(const WindowEnd& end) {
  const bool may_take_long = end.evaluation || end.evaluated || end.ends_epoch || finished();
  if (session_.own_loop || !whole_ || !may_take_long || (hooks_ == nullptr && !end.evaluation)) return;
  unfinished_ = state();
  unfinished_->end = end;
}

bool ReplicaRun::save_unfinished() {
  if (!unfinished_ || !record_.is_recorded_here()) return false;
  try {
    record_.states().save(session_.trainer, *unfinished_, asked_to_stop() ? "interrupt" : "failed",
                          /*pinned=*/false, record_.points().at(step()));
    record_.states().wait();
    return true;
  } catch (const Error&) {  // the earlier failure explains why the run ends
    return false;
  }
}

bool ReplicaRun::stays() const {
  const auto& every = recipe_.checkpoint.keep_every;
  return save_due_ && every && save_every_.count(saved_until_) % *every == 0;
}

void ReplicaRun::not_finite(const NotFinite& found, const WindowStart& start, bool untouched) {
  if (recipe_.train.on_nan == schema::OnNan::kSkip) {
    if (++record_.result.skipped_steps == 1)
      record_.warn(fmt::format("step {} was skipped: {}{}", step() + session_.own_loop, found.what,
                               found.where.known() ? fmt::format(" ({})", found.where.to_string()) : ""));
    return;
  }
  set_position(start.at);
  session_.trainer.counters.batches = start.batches;
  // A step that updated nothing leaves the previous model on the device. Save it, if that was finite.
  try {
    const bool is_whole = untouched && !start.carries_gradients && whole_;
    if (step() > 0 && is_whole && record_.is_recorded_here()) save("not finite", state_before(start));
  } catch (const Error&) {  // the thrown error reports it
  }
  session_.trainer.learn();
  throw Error(
      ErrorKind::kRun,
      what_failed(found, step() + 1, session_.trainer.counters.applied > 0, has(hooks_.get(), HookEntry::kTransform)),
      found.where);
}

// The hook has advanced since. A hook with a large state has kept it unchanged, except for its random numbers.
RunState ReplicaRun::state_before(const WindowStart& start) {
  if (hooks_ && !start.hook.kept) hooks_->set_drawn(start.hook.drawn);
  session_.trainer.arrays().hold(Held::kNothing);
  RunState state = this->state();
  if (start.hook.kept) state.hook = *start.hook.kept;
  return state;
}

// Without a saved hook state the earlier one is unknown, and an optimizer step that already counts is no longer in
// progress. Other ranks may still compute gradients; nothing has updated what rank 0 saves.
void ReplicaRun::keep_before(const WindowStart& start) {
  const bool is_known = !hooks_ || start.hook.kept;
  const bool is_whole = !start.carries_gradients && whole_ && !session_.trainer.is_local();
  if (step() == 0 || step() != start.windows || !is_known || !is_whole || !record_.is_recorded_here()) return;
  set_position(start.at);
  session_.trainer.counters.batches = start.batches;
  session_.trainer.metrics.end_window(/*finite=*/false);
  try {
    save("failed", state_before(start));
  } catch (const std::exception&) {  // the earlier failure explains why the run ends
  }
}

void ReplicaRun::set_position(const data::Position& position) {
  position_ = position;
  window_ = {};
}

// xm.save of PyTorch/XLA 1.7 ends with a barrier, so a call on one rank alone would deadlock.
void ReplicaRun::check_saves() const {
  if (session_.ranks == nullptr || session_.tpu == nullptr || recipe_.tpu.dialect != schema::TpuDialect::kXla1_7)
    return;
  std::vector<int64_t> asked(static_cast<size_t>(session_.ranks->size()));
  session_.ranks->all_gather({backends::DType::kI64, {}}, std::as_bytes(std::span(&saves_asked_, 1)),
                             std::as_writable_bytes(std::span(asked)), {"save_state", step()});
  const int64_t most = std::ranges::max(asked);
  std::vector<size_t> absent;
  for (size_t rank = 0; rank < asked.size(); ++rank)
    if (asked[rank] < most) absent.push_back(rank);
  RUN_CHECK(
      absent.empty(), ErrorKind::kRun,
      "acc:save_state: in step {} rank{} {} did not come to it, where the others would wait for ever: PyTorch/XLA "
      "1.7 saves with all replicas (tpu.dialect: xla-1.7); call it in each of them",
      step(), absent.size() == 1 ? "" : "s", fmt::join(absent, ", "));
}

void ReplicaRun::save_soon(bool in_window) {
  ++saves_asked_;
  if (in_window) {
    save_wanted_ = true;
  } else {
    due_state_ = "hook";
  }
}

void ReplicaRun::settle() {
  if (!whole_) return;
  if (const char* const reason = std::exchange(due_state_, nullptr)) save(reason);
}

void ReplicaRun::check_state(std::optional<int64_t> state) {
  if (session_.ranks == nullptr) return record_.check_state(state);
  std::string error;
  try {
    if (record_.is_recorded_here()) record_.check_state(state);
  } catch (const Error& found) {
    if (found.kind() != ErrorKind::kRun) throw;
    error = found.message();
  }
  error = session_.ranks->gather_objects(error, {"load_state", step()}).front();
  RUN_CHECK(error.empty(), ErrorKind::kRun, "{}", error);
}

void ReplicaRun::load(std::optional<int64_t> state) {
  RunState found;
  if (record_.is_recorded_here()) {
    store::Store store = record_.reopened();
    found = restore_values(store, store::find_run(store, record_.result.run), state, session_);
    found.counters = session_.trainer.counters;
    record_.states().forget();
  }
  if (session_.ranks != nullptr) found = share_state(*session_.ranks, session_.trainer, found);
  whole_ = true;
  session_.trainer.arrays().forget_logged_sums();
  session_.schedule.restore(found.plateau);
  if (!found.hook.empty()) hooks_->restore(found.hook);
}

}  // namespace runner::train
