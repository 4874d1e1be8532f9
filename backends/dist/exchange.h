// The collectives of a recording. Each takes place once, however often the recording runs.
//
// An incomplete recording may run in parts before it runs as a whole, because a hook reads a value, possibly not on all
// ranks. Every run performs the collectives recorded so far, in order. A collective that an earlier run has performed
// returns its stored result. Not thread-safe; called by the thread that executes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/dist/process_group.h"

namespace runner::backends {

class Exchange {
 public:
  // `ranks` must outlive the object.
  explicit Exchange(ProcessGroup& ranks) : ranks_(ranks) {}

  // Starts a run. `step`: optimizer step, for messages. `again`: the run is a part and the same recording runs again;
  // otherwise the next run starts a new recording.
  void begin(int64_t step, bool again);

  // Drops a recording of which parts have run; every rank must have run the same parts.
  void discard_recording() { again_ = false; }

  // Like ProcessGroup::all_reduce(), for the node at `line`.
  void all_reduce(const TensorType& type, std::span<std::byte> values, Reduction reduction, std::string_view what,
                  const SourceMark& line);

 private:
  ProcessGroup& ranks_;
  int64_t step_ = 0;
  bool again_ = false;
  size_t next_ = 0;                              // index of the next collective of this run
  std::vector<std::vector<std::byte>> results_;  // of earlier runs
};

}  // namespace runner::backends
