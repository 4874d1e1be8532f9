// Where replicas, threads of one process, hand each other the events that they are to wait for.
//
// What hangs there belongs to all who have a board, and is gone with the last of them: who leaves early, since some
// replica has failed, takes nothing away that another one is looking at.  Not thread-safe; each replica has one, and
// all make the same calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backends/backend.h"
#include "backends/collectives/collectives.h"

namespace runner::train {

using Events = std::vector<std::shared_ptr<backends::Event>>;

class EventBoard {
 public:
  // Hangs these there.  `ranks` must outlive it.
  EventBoard(Events own, backends::Collectives& ranks);
  ~EventBoard();
  EventBoard(const EventBoard&) = delete;
  EventBoard& operator=(const EventBoard&) = delete;

  // Those of all, in the order of ranks.  Throws Error(kRun) where a replica has failed.
  Events of_all() const;

 private:
  std::span<Events*> rows() const;

  backends::Collectives& ranks_;
  const std::shared_ptr<std::byte> memory_;  // the number of those who have left, and a row for each rank
};

}  // namespace runner::train
