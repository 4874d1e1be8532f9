// Devices that compute in host memory: their buffers, the arguments of Plans, and where outputs are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "backends/exec/backend.h"
#include "backends/exec/plan.h"
#include "backends/ir/program.h"
#include "backends/runtime/arena.h"

namespace runner::backends {

class HostBuffer : public Buffer {
 public:
  HostBuffer(std::shared_ptr<std::byte> memory, size_t bytes) : memory_(std::move(memory)), bytes_(bytes) {}

  size_t bytes() const override { return bytes_; }
  std::byte* data() const { return memory_.get(); }
  const std::shared_ptr<std::byte>& memory() const { return memory_; }

 private:
  const std::shared_ptr<std::byte> memory_;
  const size_t bytes_;
};

// Returns zeroed memory. Throws like Arena's constructor.
inline std::shared_ptr<std::byte> zeroed_memory(size_t bytes) {
  auto arena = std::make_shared<Arena>(bytes);
  return {arena, arena->data()};
}

// Converts the arguments of a submission to the pointers that a Plan runs on.
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
