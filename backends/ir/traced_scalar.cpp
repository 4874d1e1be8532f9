#include "backends/ir/traced_scalar.h"

#include <cmath>

namespace runner::backends {

DType dtype_of(const TracedScalar& scalar) {
  const bool as_it_is = scalar.use == ScalarUse::kValue;
  if (scalar.is_integer && (as_it_is || !is_float(scalar.tensor_dtype))) return DType::kI64;
  return as_it_is || scalar.tensor_dtype == DType::kF64 ? DType::kF64 : DType::kF32;
}

double value_of(const TracedScalar& scalar) {
  return dtype_of(scalar) == DType::kF32 ? static_cast<double>(static_cast<float>(scalar.value)) : scalar.value;
}

bool is_special(const TracedScalar& scalar) {
  const double seen = scalar.use == ScalarUse::kOperand ? value_of(scalar) : scalar.value;
  return seen == 0 || std::fabs(seen) == 1;
}

}  // namespace runner::backends
