// Chooses the kernel of a product, and computes products through another dtype.

#include "backends/kernels/matmul.h"

#include <algorithm>

#include <fmt/format.h>

#include "backends/kernels/isa/loops.h"
#include "backends/kernels/kernel_choices.h"
#include "backends/kernels/op_kernels.h"
#include "backends/kernels/prepare.h"
#include "backends/runtime/cpu_features.h"
#include "backends/tensor/alignment.h"
#include "backends/tensor/rounding.h"
#include "schema/base/error.h"

namespace runner::backends {

namespace {

// Whether our own tiles are at least as fast as oneDNN (bench/kernels_bench.cpp): up to about 20 µs of work on one
// core, and products with few rows or columns. They need no code generation, so the first small product of a process is
// cheap.
//
// oneDNN's code for AVX2 packs a B that is stored by rows slowly if the rows share places in the cache: then it reaches
// half of the peak, and our tiles three quarters.
bool suits_tiles(const MatmulShape& s) {
  constexpr int64_t kSmall = 2 << 20, kNarrow = 16, kNarrowLimit = 64 << 20;  // multiply-adds
  constexpr int64_t kAliasedCols = 1024, kLeastRows = 64;
  const int64_t work = s.rows * s.cols * s.inner;
  const bool is_aliased = !s.transpose_a && !s.transpose_b && s.rows >= kLeastRows && s.cols % kAliasedCols == 0;
  if (is_aliased && !onednn_limit().avx512) return true;
  return work <= kSmall || (std::min(s.rows, s.cols) <= kNarrow && work <= kNarrowLimit);
}

Kernel prepare_f32(const MatmulShape& shape) {
  if (suits_matvec(shape, DType::kF32, DType::kF32)) return prepare_matvec(shape, DType::kF32, DType::kF32);
  return suits_tiles(shape) ? prepare_matmul_tiles(shape, DType::kF32)
                            : prepare_matmul_dnnl(shape, DType::kF32, DType::kF32);
}

// ---- through f32 ---------------------------------------------------------------------------------------------------

// Converts 16-bit operands to f32 in scratch, which is exact, and multiplies in f32. A 16-bit result is rounded once.
struct WidenedMatmul {
  EltwiseLoops::Load widen;
  EltwiseLoops::Convert narrow;       // null: the result is f32
  int64_t a_elems, b_elems, c_elems;  // of all matrices
  Kernel product;
};

size_t aligned_bytes(int64_t elems) {
  return aligned(static_cast<size_t>(elems) * sizeof(float));
}

template <class Convert>
void in_chunks(WorkerPool& pool, int64_t elems, const Convert& convert) {
  constexpr int64_t kChunk = 64 << 10;
  pool.parallel_for(ceil_div(elems, kChunk),
                    [&](int64_t chunk) { convert(chunk * kChunk, std::min(kChunk, elems - chunk * kChunk)); });
}

void run_widened(const WidenedMatmul& m, const KernelArguments& arguments) {
  auto* a = reinterpret_cast<float*>(arguments.scratch);
  auto* b = reinterpret_cast<float*>(arguments.scratch + aligned_bytes(m.a_elems));
  std::byte* const unrounded = arguments.scratch + aligned_bytes(m.a_elems) + aligned_bytes(m.b_elems);
  std::byte* const c = m.narrow ? unrounded : arguments.results[0];
  std::byte* const rest = unrounded + (m.narrow ? aligned_bytes(m.c_elems) : 0);
  const auto widen = [&](float* target, size_t operand_index, int64_t elems) {
    const auto* source = operand<uint16_t>(arguments, operand_index);
    in_chunks(arguments.pool, elems, [&](int64_t first, int64_t n) { m.widen(target + first, source + first, 1, n); });
  };
  widen(a, 0, m.a_elems);
  widen(b, 1, m.b_elems);
  std::byte* const operands[] = {reinterpret_cast<std::byte*>(a), reinterpret_cast<std::byte*>(b)};
  std::byte* const results[] = {c};
  m.product.run(m.product.params.get(),
                {.operands = operands, .results = results, .scratch = rest, .pool = arguments.pool});
  if (!m.narrow) return;
  auto* target = result<uint16_t>(arguments);
  const auto* sums = reinterpret_cast<const float*>(c);
  in_chunks(arguments.pool, m.c_elems, [&](int64_t first, int64_t n) { m.narrow(target + first, sums + first, n); });
}

Kernel prepare_widened(const MatmulShape& shape, DType dtype, DType result) {
  const auto at = static_cast<size_t>(dtype);
  const bool narrows = result == dtype;
  WidenedMatmul m{.widen = loops().eltwise.load[at],
                  .narrow = narrows ? loops().eltwise.store[at] : nullptr,
                  .a_elems = shape.batch * shape.a_elems(),
                  .b_elems = shape.batch * shape.b_elems(),
                  .c_elems = shape.batch * shape.c_elems(),
                  .product = prepare_f32(shape)};
  const size_t scratch = aligned_bytes(m.a_elems) + aligned_bytes(m.b_elems) +
                         (narrows ? aligned_bytes(m.c_elems) : 0) + m.product.scratch_bytes;
  return make_kernel<run_widened>(fmt::format("matmul.{}_as_f32{}", name_of(dtype), narrows ? "" : ".wide"),
                                  std::move(m), scratch);
}

// ---- empty ---------------------------------------------------------------------------------------------------------

// No elements, or sums without terms: zeros.
void run_empty(const size_t& bytes, const KernelArguments& arguments) {
  std::fill_n(arguments.results[0], bytes, std::byte{0});
}

// ---- with an addend ------------------------------------------------------------------------------------------------

// Adds the third operand to a product in scratch, for kernels that cannot accumulate.
struct AddedMatmul {
  EltwiseLoops::Apply add;
  int64_t elems;
  size_t element_bytes;
  Kernel product;
};

void run_added(const AddedMatmul& m, const KernelArguments& arguments) {
  std::byte* const product = arguments.scratch;
  std::byte* const rest = product + aligned(static_cast<size_t>(m.elems) * m.element_bytes);
  m.product.run(
      m.product.params.get(),
      {.operands = arguments.operands.first(2), .results = {&product, 1}, .scratch = rest, .pool = arguments.pool});
  in_chunks(arguments.pool, m.elems, [&](int64_t first, int64_t n) {
    const size_t offset = static_cast<size_t>(first) * m.element_bytes;
    m.add(arguments.results[0] + offset, arguments.operands[2] + offset, product + offset, nullptr, n);
  });
}

Kernel with_addend(Kernel product, const TensorType& result) {
  const Compute compute = result.dtype == DType::kF64 ? Compute::kF64 : Compute::kF32;
  AddedMatmul m{.add = loops().eltwise.apply[static_cast<size_t>(Op::kAdd)][static_cast<size_t>(compute)],
                .elems = result.shape.elements(),
                .element_bytes = size_of(result.dtype),
                .product = std::move(product)};
  const size_t scratch = aligned(result.bytes()) + m.product.scratch_bytes;
  std::string name = m.product.name + ".add";
  return make_kernel<run_added>(std::move(name), std::move(m), scratch);
}

// Products of one row or column use loops of their own. f32 uses oneDNN, or our own tiles if small or narrow; bf16,
// with a result of bf16 or f32, native instructions or f32 (runtime/cpu_features.h); f16 uses f32; f64 our own tiles.
Kernel prepare_matmul(const KernelRequest& request) {
  const MatmulShape shape = matmul_shape(request);
  const DType dtype = request.operands[0].dtype, result = request.result.dtype;
  const bool adds = request.operands.size() > 2;
  RUN_CHECK(is_float(dtype), ErrorKind::kRun, "matmul: unsupported operands {}; cast to a float dtype", name_of(dtype));
  const auto finished = [&](Kernel product) {
    return adds ? with_addend(std::move(product), request.result) : product;
  };
  if (request.result.shape.elements() == 0 || shape.inner == 0)
    return finished(make_kernel<run_empty>("matmul.empty", request.result.bytes()));
  if (suits_matvec(shape, dtype, result)) return finished(prepare_matvec(shape, dtype, result));
  if (dtype == DType::kF64) return finished(prepare_matmul_tiles(shape, dtype));
  if (dtype == DType::kF32 && suits_tiles(shape)) return finished(prepare_matmul_tiles(shape, dtype));
  if (dtype == DType::kF32) return prepare_matmul_dnnl(shape, dtype, result, adds);
  const bool native = dtype == DType::kBf16 && bf16_products_in_use() == Bf16Products::kNative;
  // Small products with an f32 result go through f32: our own tiles need no code generation.
  const bool small = result == DType::kF32 && suits_tiles(shape);
  return native && !small ? prepare_matmul_dnnl(shape, dtype, result, adds)
                          : finished(prepare_widened(shape, dtype, result));
}

}  // namespace

bool has_uniform_rows(int64_t rows, int64_t cols, int64_t terms) {
  return onednn_limit().avx512 ||
         suits_tiles(
             {.batch = 1, .rows = rows, .cols = cols, .inner = terms, .transpose_a = true, .transpose_b = false});
}

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

// ---- reference kernels ----------------------------------------------------------------------------------------------

namespace reference {
namespace {

void matmul_loop(const Call& call, Operands in, Tensor& out) {
  const bool ta = call.attr(0) != 0, tb = call.attr(1) != 0;
  const int rank = out.shape().rank();
  const int64_t rows = out.shape()[rank - 2], cols = out.shape()[rank - 1];
  const int64_t inner = in[0].shape()[rank - (ta ? 2 : 1)];
  const int64_t batch = rows * cols == 0 ? 0 : out.shape().elements() / (rows * cols);
  for (int64_t g = 0; g < batch; ++g)
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < cols; ++j) {
        Real sum = 0;
        for (int64_t k = 0; k < inner; ++k)
          sum += in[0][g * rows * inner + (ta ? k * rows + i : i * inner + k)] *
                 in[1][g * inner * cols + (tb ? j * inner + k : k * cols + j)];
        const int64_t at = (g * rows + i) * cols + j;
        out[at] = sum + (in.size() > 2 ? in[2][at] : 0);
      }
}

}  // namespace
}  // namespace reference

constexpr OpKernels op_kernels::kMatmul = {.reference = reference::matmul_loop, .prepare = prepare_matmul};

}  // namespace runner::backends
