// Loops of the interpreter of element-wise groups: one per op and register type, and the conversions.

#include <utility>

#include "backends/kernels/isa/loops.h"
#include "backends/kernels/isa/scalar_ops.h"

namespace runner::backends::RUNNER_ISA {

namespace {

using namespace scalar_ops;

template <Op op, Compute compute>
void apply_block(void* dst, const void* a, const void* b, const void* c, int64_t n) {
  using T = Register<compute>;
  using First = std::conditional_t<op == Op::kWhere, float, T>;
  using Result = decltype(apply<op, T>(First{}, T{}, T{}));
  auto* d = static_cast<Result*>(dst);
  const auto* x = static_cast<const First*>(a);
  const auto* y = static_cast<const T*>(b);
  const auto* z = static_cast<const T*>(c);
  constexpr int kArity = kOpArities[static_cast<int>(op)].most;
  RUNNER_VECTOR_LOOP
  for (int64_t i = 0; i < n; ++i) d[i] = apply<op, T>(x[i], kArity > 1 ? y[i] : T{0}, kArity > 2 ? z[i] : T{0});
}

template <DType dtype>
void load_block(void* dst, const void* src, int64_t stride, int64_t n) {
  auto* d = static_cast<Register<compute_of(dtype)>*>(dst);
  const auto* s = static_cast<const Storage<dtype>*>(src);
  if (stride == 1) {
    RUNNER_VECTOR_LOOP
    for (int64_t i = 0; i < n; ++i) d[i] = load<dtype>(s[i]);
  } else if (stride == 0) {
    const auto value = load<dtype>(*s);
    for (int64_t i = 0; i < n; ++i) d[i] = value;
  } else {
    for (int64_t i = 0; i < n; ++i) d[i] = load<dtype>(s[i * stride]);
  }
}

template <DType dtype>
void store_block(void* dst, const void* src, int64_t n) {
  auto* d = static_cast<Storage<dtype>*>(dst);
  const auto* s = static_cast<const Register<compute_of(dtype)>*>(src);
  RUNNER_VECTOR_LOOP
  for (int64_t i = 0; i < n; ++i) d[i] = store<dtype>(s[i]);
}

template <Compute from, DType to>
void cast_block(void* dst, const void* src, int64_t n) {
  auto* d = static_cast<Register<compute_of(to)>*>(dst);
  const auto* s = static_cast<const Register<from>*>(src);
  RUNNER_VECTOR_LOOP
  for (int64_t i = 0; i < n; ++i) d[i] = cast<to>(s[i]);
}

template <Op op, Compute compute>
constexpr EltwiseLoops::Apply apply_or_null() {
  if constexpr (exists<op, Register<compute>>())
    return apply_block<op, compute>;
  else
    return nullptr;
}

template <int... op, int... dtype>
constexpr EltwiseLoops make_table(std::integer_sequence<int, op...>, std::integer_sequence<int, dtype...>) {
  return {.apply = {{apply_or_null<Op{op}, Compute::kF32>(), apply_or_null<Op{op}, Compute::kF64>(),
                     apply_or_null<Op{op}, Compute::kI64>()}...},
          .load = {load_block<DType{dtype}>...},
          .store = {store_block<DType{dtype}>...},
          .cast = {{cast_block<Compute::kF32, DType{dtype}>...},
                   {cast_block<Compute::kF64, DType{dtype}>...},
                   {cast_block<Compute::kI64, DType{dtype}>...}}};
}

constexpr EltwiseLoops kTable =
    make_table(std::make_integer_sequence<int, kOpCount>{}, std::make_integer_sequence<int, kDTypeCount>{});

}  // namespace

const EltwiseLoops& eltwise_loops() {
  return kTable;
}

}  // namespace runner::backends::RUNNER_ISA
