// What the host counts of a run: the part of a state that training goes on from.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace runner::train {

struct Counters {
  int64_t windows = 0;    // finished, skipped ones included
  int64_t applied = 0;    // of them those that updated the parameters
  int64_t samples = 0;    // seen in training, repeats not counted
  int64_t batches = 0;    // that training has been given, those of a window under way included
  int64_t scheduled = 0;  // steps of the schedule
  // By name of an optimizer: updates that its slots have seen, those in a parent run included.  Where there is none: 0.
  std::map<std::string, int64_t> updates = {};
  bool update_was_skipped = false;  // the newest one in a loop of a hook's
  int64_t repeats = 0;              // samples that were read once more, to fill up batches
  int64_t updates_of(const std::string& optimizer) const;
  bool operator==(const Counters&) const = default;
};

}  // namespace runner::train
