// A Plan: an executable Program with prepared kernels and a memory plan. Running it allocates nothing.
//
// Immutable; threads may share it. Each execution needs an arena of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "backends/exec/fusion.h"
#include "backends/exec/memory_plan.h"
#include "backends/ir/program.h"
#include "backends/kernels/eltwise.h"
#include "backends/kernels/kernel.h"

namespace runner::backends {

struct PlanStep {
  Kernel kernel;
  std::vector<SlotOffset> operands;
  std::vector<SlotOffset> results;
  std::vector<ValueId> operand_values, result_values;  // values at these places
  SlotOffset scratch;
  ValueId node = kNoValue;  // the last node of the group
  bool writes_state = false;
  int64_t flops = 0;
  int64_t bytes = 0;  // of operands and results, each counted once
};

struct Plan {
  Program program;  // after optimisation; the steps were compiled from it
  std::vector<PlanStep> steps;
  std::vector<StateCopy> copies;
  std::vector<SlotOffset> outputs;  // by output of the Program
  size_t arena_bytes = 0;
  size_t pointers_offset = 0;   // arena offset for the pointers of a step's arguments
  std::vector<size_t> offsets;  // of the arena's blocks
  int64_t flops = 0;
  int64_t bytes = 0;
};

// Functions that create the kernels of a Plan.
struct KernelSource {
  Kernel (*node)(const KernelRequest& request);  // for nodes that are not element-wise
  Kernel (*eltwise)(const EltwiseGroup& group);
};
inline constexpr KernelSource kFastKernels{prepare_kernel, prepare_eltwise};
inline constexpr KernelSource kReferenceKernels{prepare_reference_kernel, prepare_reference_eltwise};

// Only tests set options other than `fusion`.
struct PlanBuildOptions {
  bool optimise = true;  // constant folding and common subexpression elimination; dead nodes are always removed
  Fusion fusion = Fusion::kAll;
  bool reuse = true;  // values share arena memory, and results overwrite operands and states
  KernelSource kernels = kFastKernels;
};

// Throws Error(kRun) with the source line of a node if no kernel supports its types.
Plan build_plan(const Program& program, const PlanBuildOptions& options = {});

// The parts of a Plan that are expensive to compute: the Program after the passes, and the arena offsets of its blocks.
struct PlanImage {
  Program program;
  std::vector<size_t> offsets;
};
// Rebuilds the Plan from its image; kernels are prepared again. Throws Error(kData) if the offsets do not fit a Plan of
// this Program on this machine, and otherwise like build_plan().
Plan restore_plan(PlanImage image);

// Runs the steps of a Plan one by one, in order. `slots[0]`: arena of plan.arena_bytes, 64-byte aligned; `slots[1 +
// i]`: buffer of input i. `lines`: source lines of another recording of the same Program, or null. `exchange`:
// collectives with other ranks, or null if there are none. All arguments must outlive the object.
class PlanRun {
 public:
  PlanRun(const Plan& plan, std::span<std::byte* const> slots, WorkerPool& pool, const SourceLines* lines = nullptr,
          Exchange* exchange = nullptr)
      : plan_(plan), slots_(slots), pool_(pool), lines_(lines), exchange_(exchange) {}

  // Rethrows an Error of a kernel, with the source line of its node if it has no location. States are then undefined.
  void run(const PlanStep& step) const;
  // Call after the last step: copies new values to states that could not be updated in place.
  void update_states() const;

 private:
  std::byte* resolve(const SlotOffset& place) const { return slots_[static_cast<size_t>(place.slot)] + place.offset; }

  const Plan& plan_;
  const std::span<std::byte* const> slots_;
  WorkerPool& pool_;
  const SourceLines* const lines_;
  Exchange* const exchange_;
};

// Runs a Plan completely; throws like PlanRun::run(). `has_written`: receives, also on a throw, whether a step that
// writes to a state has begun; may be null. `after`: called after each launch; may be empty.
void run_plan(const Plan& plan, std::span<std::byte* const> slots, WorkerPool& pool, const SourceLines* lines = nullptr,
              Exchange* exchange = nullptr, bool* has_written = nullptr,
              const std::function<void(int32_t launch)>& after = {});

// Number of launches of an execution: one per step, followed by one that copies states if there is something to copy.
inline int32_t launches_of(const Plan& plan) {
  return static_cast<int32_t>(plan.steps.size() + (plan.copies.empty() ? 0 : 1));
}

// Source line of a step's last node; `lines` as in PlanRun.
const SourceMark& mark_of(const Plan& plan, const PlanStep& step, const SourceLines* lines = nullptr);

// Prints one line per step: kernel, node, places, flops, bytes.
std::string to_string(const Plan& plan);

}  // namespace runner::backends
