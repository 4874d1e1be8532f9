// The kernels of each op: its reference loop and the function that prepares its fast kernel.
//
// An element-wise op gets its kernels from Scalar<op> (isa/scalar_ops.h); every other op of ir/op_list.def defines
// op_kernels::id in the file that implements it. An op without kernels does not link; without a Scalar it does not
// compile.
#pragma once

#include "backends/ir/op_def.h"
#include "backends/kernels/kernel.h"
#include "backends/kernels/reference.h"

namespace runner::backends {

using KernelMaker = Kernel (*)(const KernelRequest& request);

struct OpKernels {
  Required<reference::Loop> reference;
  Required<KernelMaker> prepare;               // kFusedOnly: runs only as part of element-wise groups
  reference::ScalarFunction scalar = nullptr;  // the definition of an element-wise op
};
inline constexpr KernelMaker kFusedOnly = nullptr;

// Returns null for leaves, which have no kernels.
const OpKernels* kernels_of(Op op);

namespace op_kernels {
#define RUNNER_OP(id, name, kind, least, most) extern const OpKernels id;
#include "backends/ir/op_list.def"
}  // namespace op_kernels

}  // namespace runner::backends
