#include "runner/train/run/warnings.h"

#include <utility>

#include <fmt/format.h>

#include "runner/train/engine/parameter_use.h"

namespace runner::train {

void Warnings::on_optimizer_step(const StepResult& /*optimizer step*/, const Reached& /*before*/) {
  warn_of_unused();
  take_from_device();
}

void Warnings::take_from_device() {
  record_.warn_of_all(session_.device->take_warnings());
}

void Warnings::warn_of_unused() {
  const std::string& names = session_.trainer.steps().unused();
  if (names.empty() || std::exchange(warned_of_unused_, true)) return;
  // With a hook, the losses of other ranks may depend on it.
  const bool alone = session_.ranks != nullptr && hooks_ != nullptr;
  record_.warn(
      fmt::format("the loss{} does not depend on {}: {}; freeze parameters that should not be trained (model.freeze)",
                  alone ? " of process 0" : "", names,
                  skips_unused(session_.recipe.comm) ? "a step updates only parameters that its loss depends on"
                  : alone ? "its part of their gradient is zero, but weight decay still applies"
                          : "their gradient is zero, but weight decay still applies"));
}

}  // namespace runner::train
