#include "runner/train/run/hook_callback.h"

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "runner/train/loop/event_tensors.h"
#include "runner/train/run/checkpoint/sections.h"

namespace runner::train {

HookCallback::HookCallback(Hooks& hooks, TrainState& state, RunRecord& record, Observer& observer)
    : hooks_(hooks), state_(state), record_(record), observer_(observer) {
  hooks_.attach(this);
}

void HookCallback::call(HookEvent event) {
  if (!hooks_.has(event)) return;
  EventTensors tensors(state_, hooks_);
  hooks_.on(event, tensors);
  for (const auto& [name, value] : tensors.end()) log(name, value);
}

void HookCallback::on_optimizer_step(const StepResult& result, const Progress& /*before*/) {
  if (const auto text = hooks_.end_step(result.batches)) record_.warn(*text);
}

std::optional<double> HookCallback::metric(const std::string& name) const {
  if (!record_.begun()) return std::nullopt;
  const double value = record_.points().newest(name);
  return std::isnan(value) ? std::nullopt : std::optional(value);
}

// A checkpoint at this step has been saved with other weights, which the metrics so far belong to.
void HookCallback::weights_loaded(bool from_file) {
  state_.evaluation_is_stale = true;
  record_.points().note_other_weights();
  if (record_.is_recorded_here()) record_.checkpoints().forget();
  if (!from_file || !std::exchange(state_.is_as_restored, false)) return;
  record_.warn(
      fmt::format("acc:load_model has replaced the weights of the state from which this attempt continues, at "
                  "step {}; {}",
                  step(),
                  step() > 0 ? "to load weights only where a run begins, call it if acc.step == 0"
                             : "to keep those of the state, remove the call"));
}

void HookCallback::save_artifact(const std::string& name, std::string_view kind, std::vector<std::byte> bytes) {
  record_.save_artifact(name, kind, std::move(bytes));
}

void HookCallback::save_model(const std::string& name, int64_t max_shard_size) {
  for (FileBytes& file : model_files(state_.session.trainer, name, max_shard_size))
    save_artifact(file.name, "model", std::move(file.bytes));
}

}  // namespace runner::train
