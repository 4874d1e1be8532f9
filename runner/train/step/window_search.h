// Looks for what was not finite in a window of the recipe's loop.
#pragma once

#include <cstdint>
#include <optional>

#include "backends/backend.h"
#include "runner/data/loader.h"
#include "runner/train/step/executor.h"
#include "runner/train/step/hooks.h"
#include "runner/train/step/not_finite.h"
#include "runner/train/step/steps.h"
#include "runner/train/step/window.h"

namespace runner::train {

class WindowSearch {
 public:
  // `hooks`: null, or what stands for parts of the recipe.  `ranks`: null, or the replicas whose windows are one.  All
  // must outlive it.
  WindowSearch(const StepBuilder& builder, const WindowParts& parts, backends::Device& device, Executor& executor,
               Steps& steps, Hooks* hooks, backends::Collectives* ranks);

  // What was not finite first in the window that `loader` yields once more: "parameter 0.weight is inf", "a feature of
  // sample 17 is nan", "the result of exp … is inf".  Nothing must have been updated since that window, `before` of
  // whose batches come before the loader's first.  A transform of the loader's gives the same batches again
  // (data/transform.h); a hook does again what it did behind `mark`, and is left as it is.
  NotFinite explain(data::Loader& loader, int64_t before, const HookMark& mark);

 private:
  std::optional<NotFinite> find(data::Loader& loader, int64_t before);
  std::optional<NotFinite> find(const data::Batch& batch);

  const StepBuilder& builder_;
  const WindowParts& parts_;
  backends::Device& device_;
  Executor& executor_;
  Steps& steps_;
  Hooks* const hooks_;
  backends::Collectives* const ranks_;
};

}  // namespace runner::train
