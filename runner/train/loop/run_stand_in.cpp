#include "runner/train/loop/run_stand_in.h"

#include <algorithm>
#include <utility>

namespace runner::train {

RunStandIn::View ended_run(const Checkpoint& checkpoint, Print print) {
  return {.epoch = checkpoint.position.epoch,
          .step = checkpoint.counters.steps,
          .steps = checkpoint.counters.steps,
          .accumulation = std::max<int64_t>(checkpoint.accumulation, 1),
          .print = std::move(print)};
}

}  // namespace runner::train
