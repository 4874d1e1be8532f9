// Our own products: f64, and f32 if it is so small or narrow that the set-up of oneDNN costs more than its speed gains.
//
// Each element of C is one chain of multiply-adds in the order of k, so chunks do not change bits.

#include <fmt/format.h>

#include "backends/kernels/isa/loops.h"
#include "backends/kernels/matmul.h"
#include "backends/kernels/prepare.h"
#include "backends/tensor/rounding.h"

namespace runner::backends {

namespace {

// Units of work are matrices of a batch, or rows or columns of one product.
struct TiledMatmul {
  MatmulShape shape;
  enum class Cut : uint8_t { kBatch, kRows, kCols } cut;
  int64_t units, unit_size;
  int64_t chunks;
};

// Elements of the packed part of B of one chunk.
template <class T>
int64_t panel_elems(const MatmulShape& s) {
  return (matmul_loops<T>().panel_elems(s.cols, s.inner) + 15) / 16 * 16;
}

template <class T>
void multiply(const MatmulShape& s, const KernelArguments& arguments, T* panels, int64_t matrix,
              IndexRange<int64_t> rows, IndexRange<int64_t> cols) {
  const int64_t a_row_stride = s.transpose_a ? 1 : s.inner, b_col_stride = s.transpose_b ? s.inner : 1;
  matmul_loops<T>().multiply({.c = result<T>(arguments) + matrix * s.c_elems() + rows.begin * s.cols + cols.begin,
                              .a = operand<T>(arguments, 0) + matrix * s.a_elems() + rows.begin * a_row_stride,
                              .b = operand<T>(arguments, 1) + matrix * s.b_elems() + cols.begin * b_col_stride,
                              .panels = panels,
                              .c_stride = s.cols,
                              .a_row_stride = a_row_stride,
                              .a_k_stride = s.transpose_a ? s.rows : 1,
                              .b_k_stride = s.transpose_b ? 1 : s.cols,
                              .b_col_stride = b_col_stride,
                              .rows = rows.size(),
                              .cols = cols.size(),
                              .inner = s.inner});
}

template <class T>
void run_tiled(const TiledMatmul& m, const KernelArguments& arguments) {
  using Cut = TiledMatmul::Cut;
  const MatmulShape& s = m.shape;
  arguments.pool.parallel_for(m.chunks, [&](int64_t chunk) {
    T* panels = reinterpret_cast<T*>(arguments.scratch) + chunk * panel_elems<T>(s);
    const IndexRange<int64_t> units = part_of(m.units, chunk, m.chunks);
    const auto part = [&](Cut cut, int64_t size) {
      return m.cut == cut ? IndexRange<int64_t>{units.begin * m.unit_size, std::min(size, units.end * m.unit_size)}
                          : IndexRange<int64_t>{0, size};
    };
    const IndexRange<int64_t> batch = part(Cut::kBatch, s.batch);
    for (int64_t g = batch.begin; g < batch.end; ++g)
      multiply<T>(s, arguments, panels, g, part(Cut::kRows, s.rows), part(Cut::kCols, s.cols));
  });
}

TiledMatmul cut(const MatmulShape& s, double gflops) {
  constexpr int64_t kUnitRows = 96, kUnitCols = 64;
  TiledMatmul m{.shape = s, .cut = TiledMatmul::Cut::kBatch, .units = s.batch, .unit_size = 1, .chunks = 1};
  if (s.batch == 1 && s.cols >= 2 * kUnitCols)
    m = {s, TiledMatmul::Cut::kCols, (s.cols + kUnitCols - 1) / kUnitCols, kUnitCols, 1};
  else if (s.batch == 1)
    m = {s, TiledMatmul::Cut::kRows, (s.rows + kUnitRows - 1) / kUnitRows, kUnitRows, 1};
  const double flops = 2.0 * static_cast<double>(s.batch * s.rows) * static_cast<double>(s.cols * s.inner);
  m.chunks = chunk_count(flops / gflops, m.units);
  return m;
}

}  // namespace

Kernel prepare_matmul_tiles(const MatmulShape& shape, DType dtype) {
  if (dtype == DType::kF64) {
    const TiledMatmul m = cut(shape, 50);
    return make_kernel<run_tiled<double>>("matmul.f64", m,
                                          static_cast<size_t>(m.chunks * panel_elems<double>(shape)) * 8);
  }
  const TiledMatmul m = cut(shape, 100);
  return make_kernel<run_tiled<float>>("matmul.f32", m, static_cast<size_t>(m.chunks * panel_elems<float>(shape)) * 4);
}

}  // namespace runner::backends
