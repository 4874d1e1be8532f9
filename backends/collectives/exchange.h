// The collectives of a recording, each of which takes place once, however often the recording runs.
//
// A recording under way may run in parts before it runs as a whole: a hook reads a value, on one rank perhaps and not
// on another.  Every run does the collectives recorded so far, in their order; one that an earlier run has done gives
// its result again.  Not thread-safe; a device calls it from where it works.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/collectives/collectives.h"

namespace runner::backends {

class Exchange {
 public:
  // `ranks` must outlive it.
  explicit Exchange(Collectives& ranks) : ranks_(ranks) {}

  // The next run begins, in this step of the training.  `again`: it is of a part, and another one of the same recording
  // follows; else the next one begins anew.
  void begin(int64_t step, bool again);

  // A recording of which parts have run is dropped; every rank has run as much of it.
  void forget() { again_ = false; }

  // As Collectives::all_reduce, by the node at `line`.
  void all_reduce(const TensorType& type, std::span<std::byte> values, Reduction reduction, std::string_view what,
                  const SourceMark& line);

 private:
  Collectives& ranks_;
  int64_t step_ = 0;
  bool again_ = false;
  size_t next_ = 0;                              // collective of this run
  std::vector<std::vector<std::byte>> results_;  // of the runs before
};

}  // namespace runner::backends
