// How a restored state reaches the other replicas: rank 0 has read it, they go on from the same.
#pragma once

#include <optional>

#include "backends/collectives/collectives.h"
#include "runner/train/checkpoint.h"

namespace runner::train {

// Called by rank 0: the others get trainer and state as they are, or that there is nothing to go on from (null).
void send_state(backends::Collectives& ranks, Trainer& trainer, const RunState* state);

// Called by the others at the same time: puts what rank 0 sends into the trainer.  None: it has sent nothing.
std::optional<RunState> receive_state(backends::Collectives& ranks, Trainer& trainer);

}  // namespace runner::train
