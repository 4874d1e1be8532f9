// A Plan: a Program made executable.  Kernels are prepared, every value has its place; running it allocates nothing.
//
// Immutable and shareable between threads; each execution needs its own arena.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backends/ir/program.h"
#include "backends/kernels/eltwise.h"
#include "backends/kernels/kernel.h"
#include "backends/plan/fusion.h"
#include "backends/plan/storage.h"

namespace runner::backends {

struct PlanStep {
  Kernel kernel;
  std::vector<Place> operands;
  std::vector<Place> results;
  std::vector<ValueId> operand_values, result_values;  // what lies there
  Place scratch;
  ValueId node = kNoValue;  // the last node of the group
  bool writes_state = false;
  int64_t flops = 0;
  int64_t bytes = 0;  // operands and results, each counted once
};

struct Plan {
  Program program;  // as optimised; what the steps were made from
  std::vector<PlanStep> steps;
  std::vector<StateCopy> copies;
  std::vector<Place> outputs;  // by output of the Program
  size_t arena_bytes = 0;
  size_t pointers_offset = 0;   // where in the arena a step's arguments are written down
  std::vector<size_t> offsets;  // of the arena's blocks
  int64_t flops = 0;
  int64_t bytes = 0;
};

// Where a plan's kernels come from.
struct KernelSource {
  Kernel (*node)(const KernelRequest& request);  // of a node that is not element-wise
  Kernel (*eltwise)(const EltwiseGroup& group);
};
inline constexpr KernelSource kFastKernels{prepare_kernel, prepare_eltwise};
inline constexpr KernelSource kReferenceKernels{prepare_reference_kernel, prepare_reference_eltwise};

struct PlanOptions {
  bool optimise = true;  // fold and cse; what no output needs is never computed
  Fusion fusion = Fusion::kAll;
  bool reuse = true;  // values share arena bytes, results overwrite operands and states
  KernelSource kernels = kFastKernels;
};

// Throws Error(kRun) at the node's source line where no kernel takes its types.
Plan build_plan(const Program& program, const PlanOptions& options = {});

// What of a Plan takes long to find: what the passes have made of a Program, and where its blocks lie in the arena.
struct PlanImage {
  Program program;
  std::vector<size_t> offsets;
};
// The Plan that an image is of; kernels are prepared anew.  Throws Error(kData) where the offsets are not of such a
// Plan on this machine, and as build_plan().
Plan restore_plan(PlanImage image);

// A Plan under way: its steps run one by one, in order.  `slots[0]` is an arena of plan.arena_bytes, 64-byte aligned;
// `slots[1 + i]` the buffer of input i.  `lines`: of another recording of the same Program, where given; `exchange`:
// with the other replicas; null: there are none.  All must outlive it.
class PlanRun {
 public:
  PlanRun(const Plan& plan, std::span<std::byte* const> slots, WorkerPool& pool, const SourceLines* lines = nullptr,
          Exchange* exchange = nullptr)
      : plan_(plan), slots_(slots), pool_(pool), lines_(lines), exchange_(exchange) {}

  // An Error of a kernel that names no place is rethrown with the source line of its node.  The contents of states are
  // undefined then.
  void run(const PlanStep& step) const;
  // Behind the last step: states whose new values could not be written in place get them.
  void update_states() const;

 private:
  std::byte* resolve(const Place& place) const { return slots_[static_cast<size_t>(place.slot)] + place.offset; }

  const Plan& plan_;
  const std::span<std::byte* const> slots_;
  WorkerPool& pool_;
  const SourceLines* const lines_;
  Exchange* const exchange_;
};

// From its first step to its end; throws as PlanRun::run().  `has_written`: set to whether a step that writes to a
// state has begun, also where it throws; null: nobody asks.
void run_plan(const Plan& plan, std::span<std::byte* const> slots, WorkerPool& pool, const SourceLines* lines = nullptr,
              Exchange* exchange = nullptr, bool* has_written = nullptr);

// The source line of a step's last node; `lines` as above.
const SourceMark& mark_of(const Plan& plan, const PlanStep& step, const SourceLines* lines = nullptr);

// A line per step: kernel, node, places, flops, bytes.
std::string to_string(const Plan& plan);

}  // namespace runner::backends
