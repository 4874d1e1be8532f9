// Products of one row or one column with a matrix, such as those of a model that generates tokens.

#include <fmt/format.h>

#include "backends/kernels/isa/loops.h"
#include "backends/kernels/matmul.h"
#include "backends/kernels/prepare.h"

namespace runner::backends {

namespace {

// y = x B, with y (cols), x (inner) and B (inner, cols), or (cols, inner) if `by_columns`.
struct Matvec {
  size_t x, b;  // operands
  int64_t cols, inner;
  bool by_columns;
  DType dtype, result;
  int64_t unit_cols, chunks;

  bool is_wide() const { return dtype == DType::kF32; }
  bool rounds() const { return result != DType::kF32; }
  int64_t stride() const { return by_columns ? inner : cols; }
};

// Scratch of a 16-bit product: x and y as f32.
struct Widened {
  explicit Widened(const Matvec& m, std::byte* scratch = nullptr)
      : room(scratch), x(room.take<float>(m.is_wide() ? 0 : m.inner)), y(room.take<float>(m.rounds() ? m.cols : 0)) {}

  ScratchRoom room;
  float* x;
  float* y;
};

void run_matvec(const Matvec& m, const KernelArguments& arguments) {
  const Widened wide(m, arguments.scratch);
  const auto dtype = static_cast<size_t>(m.dtype);
  const float* x = m.is_wide() ? operand<float>(arguments, m.x) : wide.x;
  if (!m.is_wide()) loops().eltwise.load[dtype](wide.x, operand<std::byte>(arguments, m.x), 1, m.inner);
  float* const y = m.rounds() ? wide.y : result<float>(arguments);
  const MatvecLoops::ByLayout& multiply = m.is_wide() ? loops().matvec.f32 : loops().matvec.bf16;
  arguments.pool.parallel_for(m.chunks, [&](int64_t chunk) {
    const IndexRange<int64_t> units = part_of(ceil_div(m.cols, m.unit_cols), chunk, m.chunks);
    const int64_t first = units.begin * m.unit_cols, end = std::min(m.cols, units.end * m.unit_cols);
    const int64_t offset = m.by_columns ? first * m.inner : first;
    const MatvecBlock block{.y = y + first,
                            .x = x,
                            .b = operand<std::byte>(arguments, m.b) + static_cast<size_t>(offset) * size_of(m.dtype),
                            .stride = m.stride(),
                            .cols = end - first,
                            .inner = m.inner};
    (m.by_columns ? multiply.by_columns : multiply.by_rows)(block);
    if (m.rounds())
      loops().eltwise.store[static_cast<size_t>(m.result)](result<uint16_t>(arguments) + first, y + first, end - first);
  });
}

}  // namespace

bool suits_matvec(const MatmulShape& shape, DType dtype, DType result) {
  const auto is_supported = [](DType type) { return type == DType::kF32 || type == DType::kBf16; };
  return shape.batch == 1 && std::min(shape.rows, shape.cols) == 1 && is_supported(dtype) && is_supported(result);
}

Kernel prepare_matvec(const MatmulShape& shape, DType dtype, DType result) {
  constexpr double kBytesPerNs = 8;  // of one core
  const bool is_row = shape.rows == 1;
  Matvec m{.x = is_row ? 0u : 1u,
           .b = is_row ? 1u : 0u,
           .cols = is_row ? shape.cols : shape.rows,
           .inner = shape.inner,
           .by_columns = is_row ? shape.transpose_b : !shape.transpose_a,
           .dtype = dtype,
           .result = result,
           .unit_cols = 64,
           .chunks = 1};
  if (!m.by_columns) m.unit_cols = 128;  // long pieces of each row of B
  const double bytes = static_cast<double>(m.cols * m.inner) * static_cast<double>(size_of(dtype));
  m.chunks = chunk_count(bytes / kBytesPerNs, ceil_div(m.cols, m.unit_cols));
  const size_t scratch = Widened(m).room.size();
  return make_kernel<run_matvec>(fmt::format("matvec.{}", name_of(dtype)), m, scratch);
}

}  // namespace runner::backends
