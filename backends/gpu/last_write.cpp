#include "backends/gpu/last_write.h"

namespace runner::backends::gpu {
namespace {

// Slot 0 is the arena; inputs follow.
int32_t slot_of(const Plan& plan, int32_t state) {
  int32_t slot = 0;
  for (int32_t before = -1; before < state;)
    before += plan.program.inputs()[static_cast<size_t>(slot++)].kind == InputKind::kState;
  return slot;
}

// A byte range of a slot.
struct Range {
  int32_t slot;
  size_t begin, end;

  bool touches(const Place& place, size_t bytes) const {
    return place.slot == slot && place.offset < end && begin < place.offset + bytes;
  }
};

}  // namespace

int32_t last_write(const Plan& plan, const StateBytes& bytes) {
  const Range range{slot_of(plan, bytes.state), bytes.begin, bytes.end};
  const auto steps = static_cast<int32_t>(plan.steps.size());
  for (const StateCopy& copy : plan.copies)
    if (range.touches(copy.to, copy.bytes)) return steps;
  for (int32_t step = steps - 1; step >= 0; --step) {
    const PlanStep& writer = plan.steps[static_cast<size_t>(step)];
    for (size_t r = 0; r < writer.results.size(); ++r)
      if (range.touches(writer.results[r], plan.program.type(writer.result_values[r]).bytes())) return step;
  }
  return kBeforeAll;
}

}  // namespace runner::backends::gpu
