// What ranks tell each other between optimizer steps: requests to stop or to save, and digests of their calls.
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
  uint64_t call_digest = 0;  // hash of rates, clipping, losses, updates
};

// Returns the combined flags of all ranks. Collective. A rank without a batch has drawn fewer numbers; all ranks
// continue with the largest count. Throws Error(kRun) if call_digest or accumulation differ.
ControlFlags sync_flags(const ControlFlags& mine, backends::ProcessGroup& ranks, int64_t step);

}  // namespace runner::train
