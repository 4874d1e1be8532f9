// Finds what was not finite in an optimizer step of the declared loop.
#pragma once

#include <cstdint>
#include <optional>

#include "backends/device_model/modelled_device.h"
#include "runner/data/loader.h"
#include "runner/train/engine/engine_parts.h"
#include "runner/train/engine/executor.h"
#include "runner/train/engine/steps.h"
#include "runner/train/step/not_finite.h"
#include "runner/train/step/optimizer_step.h"
#include "runner/train/step/step_hooks.h"

namespace runner::train {

class NonFiniteSearch {
 public:
  explicit NonFiniteSearch(const EngineParts& parts);

  // Finds the first value that was not finite in an optimizer step: "parameter 0.weight is inf", "a feature of sample
  // 17 is nan", "the result of exp … is inf". `loader` must yield its batches again, from batch number `before` on.
  // Nothing may have been updated since. The loader's transform returns the same batches again (data/transform.h). A
  // hook is set back to `mark` to repeat its steps, and is restored afterwards. Collective unless ranks train
  // separate weights.
  NotFinite explain(data::Loader& loader, int64_t before, const HookMark& mark);

 private:
  std::optional<NotFinite> find(data::Loader& loader, int64_t before);
  std::optional<NotFinite> find(const data::Batch& batch);

  const EngineParts& parts_;
  backends::ProcessGroup* const ranks_;  // ranks that take the optimizer step together, or null
};

}  // namespace runner::train
