// A prepared kernel: a function specialised to shapes and dtypes when a Plan is built, then run at every execution.
//
// Invariants: 1. running allocates nothing; 2. results depend on the operands alone, never on the number of threads:
// chunks are cut by shape; 3. a kernel may be run by one thread at a time per set of arguments; params are immutable.
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

// What a kernel runs on.  Buffers are 64-byte aligned unless they are views into larger ones, then aligned to their
// dtype.
struct KernelArguments {
  std::span<std::byte* const> operands;  // read only; a result of an element-wise group may be one of them
  std::span<std::byte* const> results;
  std::byte* scratch;  // Kernel::scratch_bytes, 64-byte aligned, contents undefined
  WorkerPool& pool;
  Exchange* exchange = nullptr;      // with the other replicas; null: there are none
  const SourceMark* line = nullptr;  // of the node, where there is an exchange
};

struct Kernel {
  std::string name;  // shown in dumps and `runner doctor`: "matmul.dnnl.f32", "eltwise.adamw", …
  void (*run)(const void* params, const KernelArguments& arguments) = nullptr;
  std::shared_ptr<const void> params;
  size_t scratch_bytes = 0;
};

// One node of a Program as its kernel sees it.
struct KernelRequest {
  Op op;
  std::span<const TensorType> operands;
  std::span<const int64_t> attrs;
  TensorType result;
};

// The fast kernel of any op that is neither a leaf nor element-wise nor free (reshape, expand, contiguous slice).
// Throws Error(kRun) naming op and types where a dtype is not supported.
Kernel prepare_kernel(const KernelRequest& request);

// Plain loops for every op, element-wise ones included, computing in f64: the oracle of tests.  Not for production.
Kernel prepare_reference_kernel(const KernelRequest& request);

}  // namespace runner::backends
