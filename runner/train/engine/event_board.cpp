#include "runner/train/engine/event_board.h"

#include <atomic>
#include <utility>

namespace runner::train {
namespace {

const backends::Site kEventSite{"events"};

std::shared_ptr<std::byte> memory_for_rows(backends::ProcessGroup& ranks) {
  static_assert(sizeof(Events*) == sizeof(int64_t));
  return ranks.symmetric_alloc({backends::DType::kI64, backends::Shape{1 + ranks.size()}},
                               backends::ProcessGroup::Pages::kNow, kEventSite);
}

}  // namespace

EventBoard::EventBoard(Events own, backends::ProcessGroup& ranks) : ranks_(ranks), memory_(memory_for_rows(ranks)) {
  rows()[static_cast<size_t>(ranks.rank())] = new Events(std::move(own));
}

// The last rank to leave frees the rows, since no rank reads them any more.
EventBoard::~EventBoard() {
  std::atomic_ref left(*reinterpret_cast<int64_t*>(memory_.get()));
  if (left.fetch_add(1, std::memory_order_acq_rel) + 1 < ranks_.size()) return;
  for (Events* const events : rows()) delete events;
}

Events EventBoard::of_all() const {
  ranks_.barrier(kEventSite);
  Events all;
  for (const Events* const events : rows()) all.insert(all.end(), events->begin(), events->end());
  return all;
}

std::span<Events*> EventBoard::rows() const {
  return {reinterpret_cast<Events**>(memory_.get()) + 1, static_cast<size_t>(ranks_.size())};
}

}  // namespace runner::train
