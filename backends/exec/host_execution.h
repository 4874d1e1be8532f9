// Converts the arguments of a submission to the pointers that a Plan runs on, and locates its outputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/exec/backend.h"
#include "backends/exec/plan.h"
#include "backends/ir/program.h"

namespace runner::backends {

class ArgumentSlots {
 public:
  // `program` must outlive the object.
  explicit ArgumentSlots(const Program& program);

  // Returns the slots for PlanRun. States must be HostBuffers; the Plan works directly in their memory and in the
  // batch. Scalars are copied and stay valid until the next call.
  std::span<std::byte* const> bind(std::byte* arena, const Submission& submission);

 private:
  std::byte* store_scalar(size_t index, DType dtype, double value);

  const Program& program_;
  std::vector<int64_t> scalars_;  // eight bytes each, whatever the dtype
  std::vector<std::byte*> slots_;
};

// Returns the arena offset of output `index`, which has `bytes` bytes and must not target a state.
size_t offset_of_output(const Plan& plan, int index, size_t bytes);

}  // namespace runner::backends
