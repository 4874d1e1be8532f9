// Exchange of device events between ranks that are threads of one process.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "backends/dist/process_group.h"
#include "backends/exec/backend.h"

namespace runner::train {

using Events = std::vector<std::shared_ptr<backends::Event>>;

// Gives each rank the events of all. They live until the last rank has left the board.
class EventBoard {
 public:
  // Publishes the events of this rank. Collective. `ranks` must outlive the object.
  EventBoard(Events own, backends::ProcessGroup& ranks);
  ~EventBoard();
  EventBoard(const EventBoard&) = delete;
  EventBoard& operator=(const EventBoard&) = delete;

  // Returns the events of all ranks in rank order. Collective. Throws Error(kRun) if a rank has failed.
  Events of_all() const;

 private:
  std::span<Events*> rows() const;

  backends::ProcessGroup& ranks_;
  const std::shared_ptr<std::byte> memory_;  // number of ranks that have left, then one row per rank
};

}  // namespace runner::train
