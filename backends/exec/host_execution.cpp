
#include "backends/exec/host_execution.h"

#include <algorithm>

#include "backends/tensor/float16.h"
#include "schema/base/error.h"

namespace runner::backends {

ArgumentSlots::ArgumentSlots(const Program& program) : program_(program) {
  const auto is_scalar = [](const Input& input) { return input.kind == InputKind::kScalar; };
  scalars_.resize(static_cast<size_t>(std::ranges::count_if(program.inputs(), is_scalar)));
  slots_.resize(program.inputs().size() + 1);
}

std::span<std::byte* const> ArgumentSlots::bind(std::byte* arena, const Submission& submission) {
  size_t state = 0, batch = 0, scalar = 0, slot = 0;
  slots_[slot++] = arena;
  for (const Input& input : program_.inputs()) {
    switch (input.kind) {
      case InputKind::kState: slots_[slot++] = static_cast<HostBuffer*>(submission.states[state++])->data(); break;
      case InputKind::kBatch: slots_[slot++] = const_cast<std::byte*>(submission.batch[batch++]); break;
      case InputKind::kScalar:
        slots_[slot++] = store_scalar(scalar, program_.type(input.value).dtype, submission.scalars[scalar]);
        ++scalar;
        break;
    }
  }
  RUN_ASSERT(state == submission.states.size() && batch == submission.batch.size() &&
             scalar == submission.scalars.size());
  return slots_;
}

std::byte* ArgumentSlots::store_scalar(size_t index, DType dtype, double value) {
  auto* to = reinterpret_cast<std::byte*>(&scalars_[index]);
  store_element(dtype, value, to);
  return to;
}

size_t offset_of_output(const Plan& plan, int index, size_t bytes) {
  const Output& output = plan.program.outputs()[static_cast<size_t>(index)];
  RUN_ASSERT(output.state < 0 && bytes == plan.program.type(output.value).bytes());
  const SlotOffset& place = plan.outputs[static_cast<size_t>(index)];
  RUN_ASSERT(place.slot == 0);
  return place.offset;
}

}  // namespace runner::backends
