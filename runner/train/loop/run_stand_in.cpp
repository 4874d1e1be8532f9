#include "runner/train/loop/run_stand_in.h"

#include <algorithm>
#include <cstdio>

#include "schema/base/text.h"

namespace runner::train {

RunStandIn::View ended_run(const Checkpoint& checkpoint) {
  return {.epoch = checkpoint.position.epoch,
          .step = checkpoint.counters.steps,
          .steps = checkpoint.counters.steps,
          .accumulation = std::max<int64_t>(checkpoint.accumulation, 1),
          .print = [](std::string_view text) { std::fprintf(stderr, "%s\n", visible(text).c_str()); }};
}

}  // namespace runner::train
