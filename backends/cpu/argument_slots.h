// The arguments of a Plan's execution, as the pointers that it runs on; and where it leaves its outputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/backend.h"
#include "backends/ir/program.h"
#include "backends/plan/plan.h"

namespace runner::backends {

class ArgumentSlots {
 public:
  // Of a Program, which must outlive it.
  explicit ArgumentSlots(const Program& program);

  // The slots of PlanRun.  States are HostBuffers, in whose memory the Plan works, as it does in that of the batch;
  // numbers are copied, and stay until they are bound again.
  std::span<std::byte* const> bind(std::byte* arena, const Arguments& arguments);

 private:
  std::byte* store_scalar(size_t index, DType dtype, double value);

  const Program& program_;
  std::vector<int64_t> scalars_;  // eight bytes each, whatever the dtype
  std::vector<std::byte*> slots_;
};

// Where in the arena output `index`, of so many bytes, is: one that targets no state.
size_t offset_of_output(const Plan& plan, int index, size_t bytes);

}  // namespace runner::backends
