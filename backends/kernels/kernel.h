// A prepared kernel: a function specialised to shapes and dtypes when a Plan is built, and run at every execution.
//
// Invariants: 1. running allocates nothing; 2. results depend only on the operands, not on the number of threads,
// because work is cut by shape; 3. params are immutable, so threads may run a kernel at the same time on different
// arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "backends/dist/exchange.h"
#include "backends/ir/op.h"
#include "backends/runtime/worker_pool.h"
#include "backends/tensor/shape.h"

namespace runner::backends {

// Arguments of one execution. Buffers are 64-byte aligned; views into larger buffers are aligned to their dtype.
struct KernelArguments {
  std::span<std::byte* const> operands;  // read only; a result of an element-wise group may be one of them
  std::span<std::byte* const> results;
  std::byte* scratch;  // Kernel::scratch_bytes, 64-byte aligned, contents undefined
  WorkerPool& pool;
  Exchange* exchange = nullptr;      // with the other ranks; null: single process
  const SourceMark* line = nullptr;  // source line of the node; set if there is an exchange
};

struct Kernel {
  std::string name;  // for traces and RUNNER_DEBUG: "matmul.dnnl.f32", "eltwise.adamw", …
  void (*run)(const void* params, const KernelArguments& arguments) = nullptr;
  std::shared_ptr<const void> params;
  size_t scratch_bytes = 0;
};

// A node of a Program for which a kernel is prepared.
struct KernelRequest {
  Op op;
  std::span<const TensorType> operands;
  std::span<const int64_t> attrs;
  TensorType result;
};

// Returns the fast kernel of an op that is neither a leaf nor element-wise. Throws Error(kRun) with the op and its
// types if a dtype is not supported.
Kernel prepare_kernel(const KernelRequest& request);

// Returns the reference kernel of any op but leaves (reference.h). For tests only.
Kernel prepare_reference_kernel(const KernelRequest& request);

}  // namespace runner::backends
