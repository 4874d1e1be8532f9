#include "backends/exec/launch_schedule.h"

#include <algorithm>

namespace runner::backends {
namespace {

// Slot 0 is the arena; inputs follow.
int32_t slot_of(const Plan& plan, int32_t state) {
  int32_t slot = 0;
  for (int32_t before = -1; before < state;)
    before += plan.program.inputs()[static_cast<size_t>(slot++)].kind == InputKind::kState;
  return slot;
}

// A byte range of a slot.
struct SlotRange {
  int32_t slot;
  size_t begin, end;

  bool touches(const SlotOffset& place, size_t bytes) const {
    return place.slot == slot && place.offset < end && begin < place.offset + bytes;
  }
};

}  // namespace

// Optimizer steps repeat the same request, so the result is cached.
std::span<const LaunchSchedule::Due> LaunchSchedule::find(std::span<const ReducedBytes> ranges) {
  if (std::ranges::equal(ranges, ranges_)) return due_;
  ranges_.assign(ranges.begin(), ranges.end());
  due_.clear();
  for (const ReducedBytes& range : ranges) {
    if (due_.empty() || range.bucket != due_.back().bucket) due_.push_back({kBeforeAll, range.bucket, 0});
    due_.back().launch = std::max(due_.back().launch, last_use(range.bytes));
    due_.back().bytes += static_cast<int64_t>(range.bytes.end - range.bytes.begin);
  }
  std::ranges::stable_sort(due_, {}, &Due::launch);
  return due_;
}

std::span<const LaunchSchedule::Due> LaunchSchedule::find(std::span<const Signal> signals) {
  signalled_.clear();
  for (const Signal& signal : signals) signalled_.push_back({static_cast<int32_t>(signalled_.size()), signal.bytes});
  return find(signalled_);
}

// Returns the last launch that uses any of these bytes. State copies come after all steps.
int32_t LaunchSchedule::last_use(const StateBytes& bytes) const {
  if (bytes.state < 0) return launches_ - 1;
  const SlotRange range{slot_of(plan_, bytes.state), bytes.begin, bytes.end};
  const bool counts_reads = until_ == Until::kUnused;
  const auto touches = [&](const std::vector<SlotOffset>& places, const std::vector<ValueId>& values) {
    for (size_t i = 0; i < places.size(); ++i)
      if (range.touches(places[i], plan_.program.type(values[i]).bytes())) return true;
    return false;
  };
  for (const StateCopy& copy : plan_.copies)
    if (range.touches(copy.to, copy.bytes) || (counts_reads && range.touches(copy.from, copy.bytes)))
      return launches_ - 1;
  for (auto number = static_cast<int32_t>(plan_.steps.size()) - 1; number >= 0; --number) {
    const PlanStep& step = plan_.steps[static_cast<size_t>(number)];
    if (touches(step.results, step.result_values)) return number;
    if (counts_reads && touches(step.operands, step.operand_values)) return number;
  }
  return kBeforeAll;
}

}  // namespace runner::backends
