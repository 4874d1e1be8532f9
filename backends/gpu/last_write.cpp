#include "backends/gpu/last_write.h"

#include <algorithm>

namespace runner::backends::gpu {
namespace {

// Slot 0 is the arena.
int32_t slot_of(const Plan& plan, int32_t state) {
  int32_t slot = 0;
  for (int32_t before = -1; before < state;)
    before += plan.program.inputs()[static_cast<size_t>(slot++)].kind == InputKind::kState;
  return slot;
}

// Bytes of a slot.
struct Range {
  int32_t slot;
  size_t begin, end;

  bool touches(const Place& place, size_t bytes) const {
    return place.slot == slot && place.offset < end && begin < place.offset + bytes;
  }
};

// Of the first `steps` of the Plan.
int32_t last_step_that_writes(const Plan& plan, const Range& range, int32_t steps) {
  for (int32_t step = steps - 1; step >= 0; --step) {
    const PlanStep& writer = plan.steps[static_cast<size_t>(step)];
    for (size_t r = 0; r < writer.results.size(); ++r)
      if (range.touches(writer.results[r], plan.program.type(writer.result_values[r]).bytes())) return step;
  }
  return kBeforeAll;
}

Range range_of(const Plan& plan, const StateBytes& bytes) {
  return {slot_of(plan, bytes.state), bytes.begin, bytes.end};
}

}  // namespace

int32_t last_write(const Plan& plan, const StateBytes& bytes) {
  const Range range = range_of(plan, bytes);
  const auto steps = static_cast<int32_t>(plan.steps.size());
  for (const StateCopy& copy : plan.copies)
    if (range.touches(copy.to, copy.bytes)) return steps;
  return last_step_that_writes(plan, range, steps);
}

// In place: one operand is the state.  The others are as long, so that what is added to a part is a part of them.
int32_t last_write_of_addend(const Plan& plan, const StateBytes& bytes) {
  const int32_t last = last_write(plan, bytes);
  if (last < 0 || last == static_cast<int32_t>(plan.steps.size())) return last;
  const PlanStep& sum = plan.steps[static_cast<size_t>(last)];
  const Place whole{range_of(plan, bytes).slot, 0};
  if (plan.program.node(sum.node).op != Op::kAdd || sum.results.size() != 1 || sum.results[0] != whole ||
      std::ranges::find(sum.operands, whole) == sum.operands.end())
    return last;
  int32_t made = kBeforeAll;
  for (size_t i = 0; i < sum.operands.size(); ++i) {
    const Place& addend = sum.operands[i];
    if (addend == whole || plan.program.type(sum.operand_values[i]) != plan.program.type(sum.node)) continue;
    const Range range{addend.slot, addend.offset + bytes.begin, addend.offset + bytes.end};
    made = std::max(made, last_step_that_writes(plan, range, last));
  }
  return made == kBeforeAll ? last : made;
}

}  // namespace runner::backends::gpu
