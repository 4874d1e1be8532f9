// The kernels of each op: its reference loop and the maker of its fast kernel, one row for each op of ir/op_list.def.
//
// The row of an element-wise op is made of Scalar<op> (isa/scalar_ops.h); every other op defines op_kernels::id in the
// file that computes it.  An op without a row does not link, one without a Scalar does not compile.
#pragma once

#include "backends/ir/op_def.h"
#include "backends/kernels/kernel.h"
#include "backends/kernels/reference.h"

namespace runner::backends {

using KernelMaker = Kernel (*)(const KernelRequest& request);

struct OpKernels {
  Required<reference::Loop> reference;  // kNoReference: the fast kernel is the definition
  Required<KernelMaker> prepare;        // kFusedOnly: computed as part of element-wise groups alone
};
inline constexpr reference::Loop kNoReference = nullptr;
inline constexpr KernelMaker kFusedOnly = nullptr;

// Null for leaves, which nothing computes.
const OpKernels* kernels_of(Op op);

namespace op_kernels {
#define RUNNER_OP(id, name, kind, least, most) extern const OpKernels id;
#include "backends/ir/op_list.def"
}  // namespace op_kernels

}  // namespace runner::backends
