// Sums, extrema and argmax, along rows and across rows.

#include "backends/kernels/isa/lanes.h"
#include "backends/kernels/isa/loops.h"
#include "backends/kernels/isa/scalar_ops.h"

namespace runner::backends::RUNNER_ISA {

namespace {

using namespace scalar_ops;
using Kind = ReduceLoops::Kind;

template <Kind kind, class T>
using Accumulator = std::conditional_t<kind == ReduceLoops::kSum && std::is_same_v<T, float>, double, T>;

template <Kind kind, class A>
RUNNER_INLINE A combine(A acc, A x) {
  if constexpr (kind == ReduceLoops::kSum)
    return Scalar<Op::kAdd>::apply(acc, x);
  else if constexpr (kind == ReduceLoops::kMax)
    return Scalar<Op::kMax>::apply(acc, x);
  else
    return Scalar<Op::kMin>::apply(acc, x);
}

template <Kind kind, Compute compute>
void fold_row(void* acc, const void* x, int64_t n) {
  using T = Register<compute>;
  auto* total = static_cast<Accumulator<kind, T>*>(acc);
  const auto* values = static_cast<const T*>(x);
  if (n == 0) return;
  if constexpr (kind != ReduceLoops::kSum) {
    *total = combine<kind>(*total, lanes::extremum<kind == ReduceLoops::kMax>(values, n));
  } else if constexpr (compute == Compute::kI64) {
    for (int64_t i = 0; i < n; ++i) *total = combine<kind>(*total, values[i]);
  } else {
    *total += lanes::sum(values, n);
  }
}

// Four rows at a time, so that accumulators are read and written once per four additions. Rows are added in order.
template <Kind kind, Compute compute>
void fold_rows(void* acc, const void* x, int64_t rows, int64_t stride, int64_t cols) {
  using T = Register<compute>;
  using A = Accumulator<kind, T>;
  auto* total = static_cast<A*>(acc);
  const auto* row = static_cast<const T*>(x);
  for (; rows >= 4; rows -= 4, row += 4 * stride) {
    RUNNER_VECTOR_LOOP
    for (int64_t j = 0; j < cols; ++j) {
      A value = total[j];
      value = combine<kind>(value, static_cast<A>(row[j]));
      value = combine<kind>(value, static_cast<A>(row[stride + j]));
      value = combine<kind>(value, static_cast<A>(row[2 * stride + j]));
      total[j] = combine<kind>(value, static_cast<A>(row[3 * stride + j]));
    }
  }
  for (; rows > 0; --rows, row += stride) {
    RUNNER_VECTOR_LOOP
    for (int64_t j = 0; j < cols; ++j) total[j] = combine<kind>(total[j], static_cast<A>(row[j]));
  }
}

template <Compute compute>
int64_t argmax(const void* x, int64_t n) {
  return lanes::argmax(static_cast<const Register<compute>*>(x), n);
}

template <Kind kind>
constexpr void fill(ReduceLoops& table) {
  table.fold_row[kind][0] = fold_row<kind, Compute::kF32>;
  table.fold_row[kind][1] = fold_row<kind, Compute::kF64>;
  table.fold_row[kind][2] = fold_row<kind, Compute::kI64>;
  table.fold_rows[kind][0] = fold_rows<kind, Compute::kF32>;
  table.fold_rows[kind][1] = fold_rows<kind, Compute::kF64>;
  table.fold_rows[kind][2] = fold_rows<kind, Compute::kI64>;
}

constexpr ReduceLoops make_table() {
  ReduceLoops table{};
  fill<ReduceLoops::kSum>(table);
  fill<ReduceLoops::kMax>(table);
  fill<ReduceLoops::kMin>(table);
  table.argmax[0] = argmax<Compute::kF32>;
  table.argmax[1] = argmax<Compute::kF64>;
  table.argmax[2] = argmax<Compute::kI64>;
  return table;
}

constexpr ReduceLoops kTable = make_table();

}  // namespace

const ReduceLoops& reduce_loops() {
  return kTable;
}

}  // namespace runner::backends::RUNNER_ISA
