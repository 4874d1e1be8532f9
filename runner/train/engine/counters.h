// Counters of a run that the host keeps. They are part of a checkpoint.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace runner::train {

struct Counters {
  int64_t steps = 0;      // finished optimizer steps, including skipped ones
  int64_t applied = 0;    // optimizer steps that updated the parameters
  int64_t samples = 0;    // training samples, without padding
  int64_t batches = 0;    // training batches taken, including those of the optimizer step in progress
  int64_t scheduled = 0;  // steps of the learning rate schedule
  // Updates by optimizer name, including those of a parent run. A missing name means 0.
  std::map<std::string, int64_t> updates = {};
  bool update_was_skipped = false;  // whether the last update of a hook's training loop was skipped
  int64_t repeats = 0;              // padding samples
  int64_t updates_of(const std::string& optimizer) const;
  bool operator==(const Counters&) const = default;
};

}  // namespace runner::train
