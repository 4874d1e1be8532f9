// Distributes what rank 0 has restored from the store to the other ranks.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "backends/dist/process_group.h"
#include "runner/train/loop/checkpoint.h"
#include "runner/train/run/run.h"

namespace runner::train {

class Trainer;

struct SharedStart {
  std::string run, name;
  bool records_batches = false;
  std::map<std::string, MetricRange> metrics;  // recorded before
  // As it was loaded; none if the run starts without a checkpoint.
  std::optional<Checkpoint> state;
  int64_t max_micro_batch = 0;  // GradAccumulation::max_micro_batch
  bool resumed = false;         // a resumed run, not a fork: the checkpoint is of this run

  // Without the state.
  static auto parts(auto& self) {
    return std::tie(self.run, self.name, self.records_batches, self.metrics, self.max_micro_batch, self.resumed);
  }
};

// Restores rank 0's state in the trainers of all ranks. Collective. Rank 0's trainer already has it.
Checkpoint share_state(backends::ProcessGroup& ranks, Trainer& trainer, const Checkpoint& mine);

// Called by rank 0, whose trainer has the state. Collective with receive_beginning().
void send_beginning(backends::ProcessGroup& ranks, Trainer& trainer, const SharedStart& beginning);

// Called by the other ranks at the same time. Restores the state into the trainer.
SharedStart receive_beginning(backends::ProcessGroup& ranks, Trainer& trainer);

}  // namespace runner::train
