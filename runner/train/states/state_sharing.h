// How what rank 0 has restored from the store reaches the other replicas: they go on from the same.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "backends/collectives/collectives.h"
#include "runner/train/run.h"
#include "runner/train/states/checkpoint.h"

namespace runner::train {

struct Beginning {
  std::string run, name;
  bool records_batches = false;
  std::map<std::string, MetricRange> metrics;  // recorded before
  // Restored, as it was loaded; none: the run begins at nothing.
  std::optional<RunState> state;
  int64_t most_at_once = 0;  // WindowParts::most_at_once
  bool resumed = false;      // not forked: the state is of this run
};

// Called by all at the same time, by rank 0 with a state that its trainer holds: their trainers hold it, too.
RunState share_state(backends::Collectives& ranks, Trainer& trainer, const RunState& mine);

// Called by rank 0, whose trainer holds the state.
void send_beginning(backends::Collectives& ranks, Trainer& trainer, const Beginning& beginning);

// Called by the others at the same time: puts what the state holds into the trainer.
Beginning receive_beginning(backends::Collectives& ranks, Trainer& trainer);

}  // namespace runner::train
