#include "backends/kernels/kernel.h"
#include "backends/kernels/matmul.h"

namespace runner::backends {

Kernel prepare_kernel(const KernelRequest& request) {
  if (request.op == Op::kMatmul) return prepare_matmul(request);
  return prepare_reference_kernel(request);
}

}  // namespace runner::backends
