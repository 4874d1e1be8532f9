#include "runner/train/run/hook_callback.h"

#include <cmath>
#include <utility>

#include "runner/train/run/checkpoint/sections.h"

namespace runner::train {

HookCallback::HookCallback(Hooks& hooks, TrainState& state, TrainLoop& loop, RunRecord& record, Observer& observer)
    : hooks_(hooks), state_(state), loop_(loop), record_(record), observer_(observer) {
  hooks_.attach(this);
}

std::optional<double> HookCallback::metric(const std::string& name) const {
  if (!record_.begun()) return std::nullopt;
  const double value = record_.points().newest(name);
  return std::isnan(value) ? std::nullopt : std::optional(value);
}

void HookCallback::save_artifact(const std::string& name, std::string_view kind, std::vector<std::byte> bytes) {
  record_.save_artifact(name, kind, std::move(bytes));
}

void HookCallback::save_model(const std::string& name, int64_t max_shard_size) {
  for (FileBytes& file : model_files(state_.session.trainer, name, max_shard_size))
    save_artifact(file.name, "model", std::move(file.bytes));
}

}  // namespace runner::train
