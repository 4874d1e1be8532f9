#include "runner/train/run/checkpoint/callback.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runner/train/run/checkpoint/rank_parts.h"
#include "runner/train/run/checkpoint/restore.h"
#include "runner/train/run/checkpoint/sections.h"
#include "runner/train/run/checkpoint/sharing.h"
#include "schema/base/error.h"
#include "schema/base/secrets.h"

namespace runner::train {

CheckpointCallback::CheckpointCallback(TrainState& state, RunRecord& record, DeviceRecord& device)
    : state_(state),
      session_(state.session),
      record_(record),
      device_(device),
      every_(session_.recipe.checkpoint.every, session_.length) {}

void CheckpointCallback::resume() {
  const StepResult& result = state_.result;
  saved_until_ = state_.reached;
  if (result.batches > 0)
    saved_until_ = {state_.step(), state_.position.epoch, state_.reached.samples + result.samples};
}

void CheckpointCallback::on_substep_end() {
  const Progress before = saved_until_;
  saved_until_ = {state_.step(), state_.position.epoch, session_.trainer.counters.samples + state_.result.samples};
  due_ = every_.due(before, saved_until_);
  if (session_.ranks != nullptr)  // rank 0 decides; each rank has a part of the state
    due_ = session_.ranks->any(due_ && record_.is_recorded_here(), {"a state", state_.step() + 1});
  if (due_) save("schedule");
}

bool CheckpointCallback::needs_results(const Progress& after) const {
  return every_.due(saved_until_, after) || state_.control.save_requested();
}

void CheckpointCallback::on_optimizer_step(const StepResult& /*result*/, const Progress& /*before*/) {
  due_ = state_.weights_agree && every_.due(std::exchange(saved_until_, state_.reached), state_.reached);
}

void CheckpointCallback::on_step_done() {
  const char* const reason = state_.weights_agree ? reason_to_save() : nullptr;
  if (session_.has_custom_loop) {
    state_.control.save_when_closed(reason);
  } else if (reason != nullptr) {
    save(reason);
  }
}

const char* CheckpointCallback::reason_to_save() {
  if (state_.finished()) return nullptr;
  if (state_.control.take_save_request()) return "hook";
  if (due_) return "schedule";
  return state_.evaluation.done && record_.is_recorded_here() &&
                 record_.checkpoints().is_among_best(record_.points().of_weights_at(state_.step()))
             ? "best"
             : nullptr;
}

void CheckpointCallback::on_step_closed() {
  if (!session_.has_custom_loop) return;
  const char* const reason = state_.control.take_save_reason();
  bool is_due = reason != nullptr;
  if (session_.trainer.accumulating_ranks() != nullptr)  // rank 0 decides; each rank may have a part of the state
    is_due = session_.ranks->any(is_due && record_.is_recorded_here(), {"a state", state_.step()});
  if (is_due) save(reason);
}

// Whether ranks have sums for an optimizer step to come. Collective.
bool CheckpointCallback::ranks_hold_sums() const {
  if (session_.ranks == nullptr || state_.result.batches > 0) return session_.ranks != nullptr;
  if (!session_.has_custom_loop || session_.trainer.accumulating_ranks() == nullptr) return false;
  return session_.ranks->any(session_.trainer.arrays().holds_sums_of_rank(), {"a state", state_.step()});
}

void CheckpointCallback::on_step_failed(const char* reason, const StepStart& start) {
  if (record_.is_recorded_here()) save(reason, state_.checkpoint_of(start));
}

void CheckpointCallback::on_train_end(bool done) {
  save(done ? "end" : "interrupt", Arrays::kLent);
  if (record_.is_recorded_here()) record_.checkpoints().wait();
}

void CheckpointCallback::save(const char* reason, Arrays arrays) {
  device_.end(Activity::kTraining);
  std::vector<std::string> names;
  if (state_.result.batches == 0) names = state_.control.take_state_names();
  std::ranges::transform(names, names.begin(), hide_secrets);
  std::vector<RankPart> parts;
  const bool has_parts = ranks_hold_sums();
  if (has_parts) parts = gather_rank_parts(session_.trainer, *session_.ranks);
  if (!record_.is_recorded_here()) return;
  Checkpoint checkpoint = state_.checkpoint();
  if (has_parts) checkpoint.ranks = session_.ranks->size();
  checkpoint.rank_parts = std::move(parts);
  save(reason, checkpoint, names, arrays);
}

void CheckpointCallback::save(const char* reason, const Checkpoint& checkpoint, const std::vector<std::string>& names,
                              Arrays arrays) {
  device_.record_graphs();
  device_.record_gpus(/*ranks=*/nullptr);
  CheckpointSaver& saver = record_.checkpoints();
  saver.save(
      session_.trainer, checkpoint, reason, is_pinned(),
      state_.result.batches == 0 ? record_.points().of_weights_at(state_.step()) : std::map<std::string, double>(),
      names, arrays);
  const bool has_copied = arrays == Arrays::kCopied || !session_.trainer.arrays().has_views();
  device_.end(Activity::kSaving,
              has_copied ? copies_for_state(session_.trainer.arrays().memory(), saver.largest_copy()) : 0);
}

bool CheckpointCallback::is_pinned() const {
  const auto& every = session_.recipe.checkpoint.keep_every;
  return due_ && every && every_.count(saved_until_) % *every == 0;
}

// `selectors`: of each rank.
int64_t CheckpointCallback::find_same_state(const std::vector<std::string>& selectors) {
  const int64_t state = record_.find_state(selectors.front());
  for (size_t rank = 1; rank < selectors.size(); ++rank) {
    if (selectors[rank] == selectors.front()) continue;
    const int64_t other = record_.find_state(selectors[rank]);
    RUN_CHECK(other == state, ErrorKind::kRun,
              "load_state: rank {} asks for state {} and rank 0 for state {}; load the same state on every rank", rank,
              other, state);
  }
  return state;
}

void CheckpointCallback::on_find_state(const std::string& state) {
  if (session_.ranks == nullptr) {
    found_state_ = record_.find_state(state);
    return;
  }
  const backends::Site site{"load_state", state_.step()};
  const std::vector<std::string> selectors = session_.ranks->gather_objects(state, site);
  std::string error;
  try {
    if (record_.is_recorded_here()) found_state_ = find_same_state(selectors);
  } catch (const Error& found) {
    if (found.kind() != ErrorKind::kRun) throw;
    error = found.message();
  }
  error = session_.ranks->gather_objects(error, site).front();
  RUN_CHECK(error.empty(), ErrorKind::kRun, "{}", error);
}

void CheckpointCallback::on_requested_save() {
  if (!state_.control.take_save_request()) return;
  save("hook");
  if (state_.reached_end() && record_.is_recorded_here()) record_.checkpoints().wait();
}

void CheckpointCallback::on_load_state() {
  Checkpoint found;
  if (record_.is_recorded_here()) {
    store::Store store = record_.reopened();
    found = restore_values(store, found_state_, session_);
    found.counters = session_.trainer.counters;
    record_.checkpoints().forget();
  }
  if (session_.ranks != nullptr) found = share_state(*session_.ranks, session_.trainer, found);
  state_.restore_values(found);
}

}  // namespace runner::train
