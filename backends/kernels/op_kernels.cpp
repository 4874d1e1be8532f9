#include "backends/kernels/op_kernels.h"

#include "backends/kernels/isa/scalar_ops.h"
#include "schema/base/error.h"

namespace runner::backends {
namespace {

void elementwise_loop(const reference::Call& call, reference::Operands in, reference::Tensor& out) {
  const reference::ScalarFunction scalar = kernels_of(call.op)->scalar;
  for (int64_t i = 0; i < out.shape().elements(); ++i)
    out[i] = scalar(in[0][i], in.size() > 1 ? in[1][i] : 0, in.size() > 2 ? in[2][i] : 0);
}

template <Op op>
constexpr OpKernels kElementwiseKernels{
    .reference = elementwise_loop, .prepare = kFusedOnly, .scalar = scalar_ops::reference<op>};

// Only leaves and element-wise ops do without op_kernels::id.
#define RUNNER_OP(id, name, kind, least, most)  \
  []<Op op>() -> const OpKernels* {             \
    if constexpr (kind_of(op) == OpKind::kLeaf) \
      return nullptr;                           \
    else if constexpr (is_elementwise(op))      \
      return &kElementwiseKernels<op>;          \
    else                                        \
      return &op_kernels::id;                   \
  }.template operator()<Op::id>(),
constexpr const OpKernels* kTable[kOpCount] = {
#include "backends/ir/op_list.def"
};

}  // namespace

const OpKernels* kernels_of(Op op) {
  return kTable[static_cast<int>(op)];
}

Kernel prepare_kernel(const KernelRequest& request) {
  const OpKernels* const kernels = kernels_of(request.op);
  RUN_CHECK(kernels != nullptr && kernels->prepare != kFusedOnly, ErrorKind::kRun, "{}: no kernel",
            name_of(request.op));
  return kernels->prepare(request);
}

}  // namespace runner::backends
