// Control flags, synchronised across ranks after each optimizer step. A request on one rank takes effect on all.
// Decisions that must be the same on all ranks are compared.
#pragma once

#include <cstdint>

#include "backends/dist/process_group.h"

namespace runner::train {

struct ControlFlags {
  bool interrupted = false;  // by a signal
  bool stop = false;         // by a hook: end the run after this optimizer step
  bool save = false;         // by a hook: save a checkpoint
  int64_t drawn = 0;         // number of draws by the hook
  int64_t accumulation = 1;  // batches of the following optimizer steps
  uint64_t decisions = 0;    // hash of rates, clipping, losses, updates
};

// Returns the combined flags of all ranks. Collective. A rank without a batch has drawn fewer numbers; all ranks
// continue with the largest count. Throws Error(kRun) if decisions or accumulation differ.
ControlFlags sync_flags(const ControlFlags& mine, backends::ProcessGroup& ranks, int64_t step);

}  // namespace runner::train
