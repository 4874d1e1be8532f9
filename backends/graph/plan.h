// A Plan: a Program made executable.  Kernels are prepared, every value has its place; running it allocates nothing.
//
// Immutable and shareable between threads; each execution needs its own arena.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "backends/graph/program.h"
#include "backends/graph/storage.h"
#include "backends/kernels/kernel.h"

namespace runner::backends {

struct PlanStep {
  Kernel kernel;
  std::vector<Place> operands;
  std::vector<Place> results;
  Place scratch;
  ValueId node = kNoValue;  // the last node of the group
  SourceMark mark;          // of that node
  int64_t flops = 0;
  int64_t bytes = 0;  // operands and results, each counted once
};

struct Plan {
  Program program;  // as optimised; what the steps were made from
  std::vector<PlanStep> steps;
  std::vector<StateCopy> copies;
  std::vector<Place> outputs;  // by output of the Program
  size_t arena_bytes = 0;
  int64_t flops = 0;
  int64_t bytes = 0;
};

struct PlanOptions {
  bool optimise = true;  // fold, cse, dce
  bool fuse = true;
  bool reuse = true;  // values share arena bytes, results overwrite operands and states
  // Makes the kernel of a node that is not element-wise; tests put the reference kernels here.
  Kernel (*prepare)(const KernelRequest& request) = prepare_kernel;
};

// Throws Error(kRun) at the node's source line where no kernel takes its types.
Plan build_plan(const Program& program, const PlanOptions& options = {});

// Runs every step.  `slots[0]` is an arena of plan.arena_bytes, 64-byte aligned; `slots[1 + i]` the buffer of input i.
// An Error of a kernel is rethrown with the source line of its node.
void run_plan(const Plan& plan, std::span<std::byte* const> slots, WorkerPool& pool);

// A line per step: kernel, node, places, flops, bytes.
std::string to_string(const Plan& plan);

}  // namespace runner::backends
