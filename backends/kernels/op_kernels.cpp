#include "backends/kernels/op_kernels.h"

#include "backends/kernels/isa/scalar_ops.h"
#include "backends/kernels/make_kernel.h"
#include "schema/base/error.h"

namespace runner::backends {
namespace {

template <Op op>
void elementwise_loop(const reference::Call&, reference::Operands in, reference::Tensor& out) {
  for (int64_t i = 0; i < out.shape().elements(); ++i)
    out[i] = scalar_ops::reference<op>(in[0][i], in.size() > 1 ? in[1][i] : 0, in.size() > 2 ? in[2][i] : 0);
}

template <Op op>
constexpr OpKernels kElementwiseKernels{.reference = elementwise_loop<op>, .prepare = kFusedOnly};

// The address of the kernels of an op, by its kind.
#define RUNNER_KERNELS_OF_kLeaf(id) nullptr
#define RUNNER_KERNELS_OF_kElementwise(id) &kElementwiseKernels<Op::id>
#define RUNNER_KERNELS_OF_kReduction(id) &op_kernels::id
#define RUNNER_KERNELS_OF_kMovement(id) &op_kernels::id
#define RUNNER_KERNELS_OF_kIndexing(id) &op_kernels::id
#define RUNNER_KERNELS_OF_kContraction(id) &op_kernels::id
#define RUNNER_KERNELS_OF_kRow(id) &op_kernels::id
#define RUNNER_KERNELS_OF_kRandom(id) &op_kernels::id
#define RUNNER_KERNELS_OF_kCollective(id) &op_kernels::id

constexpr const OpKernels* kTable[kOpCount] = {
#define RUNNER_OP(id, name, kind, least, most) RUNNER_KERNELS_OF_##kind(id),
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
