// Which kernel computes a product, and products through another dtype.

#include "backends/kernels/matmul.h"

#include <algorithm>

#include <fmt/format.h>

#include "backends/kernels/isa/loops.h"
#include "backends/kernels/make_kernel.h"
#include "backends/runtime/cpu_features.h"
#include "schema/error.h"

namespace runner::backends {

namespace {

// ---- by way of f32 -------------------------------------------------------------------------------------------------

// Operands of 16 bits are widened into scratch, which is exact, multiplied in f32, and the result is rounded once.
struct WidenedMatmul {
  EltwiseLoops::Load widen;
  EltwiseLoops::Convert narrow;
  int64_t a_elems, b_elems, c_elems;  // of all matrices
  Kernel product;
};

size_t aligned_bytes(int64_t elems) {
  return (static_cast<size_t>(elems) * sizeof(float) + 63) / 64 * 64;
}

template <class Convert>
void in_chunks(WorkerPool& pool, int64_t elems, const Convert& convert) {
  constexpr int64_t kChunk = 64 << 10;
  pool.parallel_for((elems + kChunk - 1) / kChunk,
                    [&](int64_t chunk) { convert(chunk * kChunk, std::min(kChunk, elems - chunk * kChunk)); });
}

void run_widened(const WidenedMatmul& m, const KernelArguments& arguments) {
  auto* a = reinterpret_cast<float*>(arguments.scratch);
  auto* b = reinterpret_cast<float*>(arguments.scratch + aligned_bytes(m.a_elems));
  auto* c = reinterpret_cast<float*>(arguments.scratch + aligned_bytes(m.a_elems) + aligned_bytes(m.b_elems));
  std::byte* rest = reinterpret_cast<std::byte*>(c) + aligned_bytes(m.c_elems);
  const auto widen = [&](float* target, size_t operand_index, int64_t elems) {
    const auto* source = operand<uint16_t>(arguments, operand_index);
    in_chunks(arguments.pool, elems, [&](int64_t first, int64_t n) { m.widen(target + first, source + first, 1, n); });
  };
  widen(a, 0, m.a_elems);
  widen(b, 1, m.b_elems);
  std::byte* const operands[] = {reinterpret_cast<std::byte*>(a), reinterpret_cast<std::byte*>(b)};
  std::byte* const results[] = {reinterpret_cast<std::byte*>(c)};
  m.product.run(m.product.params.get(),
                {.operands = operands, .results = results, .scratch = rest, .pool = arguments.pool});
  auto* target = result<uint16_t>(arguments);
  in_chunks(arguments.pool, m.c_elems, [&](int64_t first, int64_t n) { m.narrow(target + first, c + first, n); });
}

Kernel prepare_widened(const MatmulShape& shape, DType dtype) {
  const auto at = static_cast<size_t>(dtype);
  WidenedMatmul m{.widen = loops().eltwise.load[at],
                  .narrow = loops().eltwise.store[at],
                  .a_elems = shape.batch * shape.a_elems(),
                  .b_elems = shape.batch * shape.b_elems(),
                  .c_elems = shape.batch * shape.c_elems(),
                  .product = prepare_matmul_dnnl(shape, DType::kF32)};
  const size_t scratch =
      aligned_bytes(m.a_elems) + aligned_bytes(m.b_elems) + aligned_bytes(m.c_elems) + m.product.scratch_bytes;
  return make_kernel<run_widened>(fmt::format("matmul.{}_as_f32", name_of(dtype)), std::move(m), scratch);
}

// ---- f64 -----------------------------------------------------------------------------------------------------------

constexpr int64_t kF64Rows = 16;  // of one chunk

// Row by row, C[i] = Σ_k A[i][k] B[k]: the sum over k runs in order.
void run_f64(const MatmulShape& s, const KernelArguments& arguments) {
  const int64_t strips = (s.rows + kF64Rows - 1) / kF64Rows;
  arguments.pool.parallel_for(s.batch * strips, [&](int64_t chunk) {
    const int64_t g = chunk / strips, first = chunk % strips * kF64Rows;
    const double* a = operand<double>(arguments, 0) + g * s.a_elems();
    const double* b = operand<double>(arguments, 1) + g * s.b_elems();
    double* c = result<double>(arguments) + g * s.c_elems();
    for (int64_t i = first; i < std::min(first + kF64Rows, s.rows); ++i) {
      std::fill_n(c + i * s.cols, s.cols, 0.0);
      for (int64_t k = 0; k < s.inner; ++k) {
        const double factor = s.transpose_a ? a[k * s.rows + i] : a[i * s.inner + k];
        for (int64_t j = 0; j < s.cols; ++j)
          c[i * s.cols + j] += factor * (s.transpose_b ? b[j * s.inner + k] : b[k * s.cols + j]);
      }
    }
  });
}

// ---- empty ---------------------------------------------------------------------------------------------------------

// No elements, or sums over nothing: zeros.
void run_empty(const size_t& bytes, const KernelArguments& arguments) {
  std::fill_n(arguments.results[0], bytes, std::byte{0});
}

}  // namespace

MatmulShape matmul_shape(const KernelRequest& request) {
  const Shape& a = request.operands[0].shape;
  const Shape& c = request.result.shape;
  const int rank = c.rank();
  const bool ta = request.attrs[0] != 0, tb = request.attrs[1] != 0;
  int64_t batch = 1;
  for (int axis = 0; axis < rank - 2; ++axis) batch *= c[axis];
  return {.batch = batch,
          .rows = c[rank - 2],
          .cols = c[rank - 1],
          .inner = a[rank - (ta ? 2 : 1)],
          .transpose_a = ta,
          .transpose_b = tb};
}

Kernel prepare_matmul(const KernelRequest& request) {
  const MatmulShape shape = matmul_shape(request);
  const DType dtype = request.result.dtype;
  RUN_CHECK(is_float(dtype), ErrorKind::kRun, "matmul: products of {} are not supported, cast to a float dtype",
            name_of(dtype));
  if (request.result.shape.elements() == 0 || shape.inner == 0)
    return make_kernel<run_empty>("matmul.empty", request.result.bytes());
  if (dtype == DType::kF64) return make_kernel<run_f64>("matmul.f64", shape);
  if (dtype == DType::kF32) return prepare_matmul_dnnl(shape, dtype);
  const bool native = dtype == DType::kBf16 && bf16_products(cpu_features()) == Bf16Products::kNative;
  return native ? prepare_matmul_dnnl(shape, dtype) : prepare_widened(shape, dtype);
}

}  // namespace runner::backends
