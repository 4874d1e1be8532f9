#include "backends/kernels/eltwise.h"
#include "backends/kernels/kernel.h"

namespace runner::backends {

Kernel prepare_kernel(const KernelRequest& request) {
  return prepare_reference_kernel(request);
}
Kernel prepare_eltwise(const EltwiseGroup& group) {
  return prepare_reference_eltwise(group);
}

bool same_compute_type(DType a, DType b) {
  const auto compute = [](DType d) { return is_int(d) ? DType::kI64 : d == DType::kF64 ? d : DType::kF32; };
  return compute(a) == compute(b);
}

std::string EltwiseGroup::to_string() const {
  return {};
}

}  // namespace runner::backends
