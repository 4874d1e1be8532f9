// Products with oneDNN, on tiles.
//
// Tiles depend on the shape only. For matrices with gaps between rows, oneDNN falls back to an older implementation
// that takes 30 ms of code generation at first use. Therefore tiles are cut so that they have no gaps, and copied if
// that is cheap. All tiles of one size share a primitive. The gradient of weights, Aᵀ B, is cut along its inner axis,
// where both operands have no gaps: each part gives a sum of f32, and the sums are added in order.

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "backends/kernels/isa/loops.h"
#include "backends/kernels/matmul.h"
#include "backends/kernels/onednn.h"
#include "backends/kernels/prepare.h"
#include "backends/kernels/rows_io.h"
#include "backends/runtime/available_memory.h"
#include "backends/tensor/alignment.h"
#include "backends/tensor/rounding.h"
#include "schema/base/error.h"

namespace runner::backends {

namespace {

using dnnl::memory;

// A rectangle of C, several whole matrices, or C over a part of the inner axis.
struct Tile {
  int64_t first_batch, batch;
  int64_t first_row, rows;
  int64_t first_col, cols;
  int64_t first_inner, inner;  // a part of the inner axis, or the whole of it
};

// One primitive for each tile size.
struct TileKind {
  int64_t batch, rows, cols, inner;
  bool transposes_a, copies_c;  // through scratch, after the scratch of the primitive
  dnnl::matmul primitive;
  memory::desc a, b, c, scratch;
};

// Memory objects of the call of one tile, and its stream.
struct TileCall {
  memory a, b, c, scratch;
  dnnl::stream stream;
};
using TileCalls = std::vector<TileCall>;

struct DnnlMatmul {
  MatmulShape shape;
  size_t element_bytes, result_bytes;  // size of an element of the operands, and of a tile's result
  DType result;                        // dtype of C
  bool adds;                           // adds to the contents of C
  bool sums_parts;                     // tiles are parts of the inner axis, and give sums of f32
  std::vector<TileKind> kinds;
  std::vector<Tile> tiles;
  std::vector<size_t> kind_of_tile;
  size_t tile_scratch_bytes = 0;
  TransposeLoops::Transpose transpose;

  std::shared_ptr<OneDnnCalls<TileCalls>> calls = std::make_shared<OneDnnCalls<TileCalls>>();
};

// ---- cutting -------------------------------------------------------------------------------------------------------

// Number of tiles of a product: one below 20 µs of work, else an even number of a few milliseconds each, because each
// tile repeats part of the packing of the others. (Assumes 200 GFLOP/s for f32 and twice that for bf16.)
int64_t tile_count(const MatmulShape& shape, DType dtype) {
  const double flops =
      2.0 * static_cast<double>(shape.batch * shape.rows) * static_cast<double>(shape.cols * shape.inner);
  const double micros = flops / (dtype == DType::kBf16 ? 400e3 : 200e3);
  constexpr double kInlineMicros = 20, kTileMicros = 2400;
  if (micros < kInlineMicros) return 1;
  return 2 * std::clamp<int64_t>(std::llround(micros / (2 * kTileMicros)), 1, 32);
}

// Cuts [0, size) into `parts` nearly equal parts that start at multiples of `grain`.
std::vector<std::pair<int64_t, int64_t>> split_range(int64_t size, int64_t parts, int64_t grain) {
  const int64_t units = ceil_div(size, grain);
  std::vector<std::pair<int64_t, int64_t>> ranges;
  for (int64_t part = 0; part < std::min(parts, units); ++part) {
    const int64_t begin = units * part / std::min(parts, units) * grain;
    const int64_t end = std::min(size, units * (part + 1) / std::min(parts, units) * grain);
    ranges.emplace_back(begin, end - begin);
  }
  return ranges;
}

// Number of parts of the inner axis for about `count` tiles; 1 if the product is better cut otherwise, or if the sums
// would take much memory. Adding those of parts of at least kLeastInner takes about a twentieth of the time.
int64_t parts_of_inner(const MatmulShape& s, int64_t count) {
  constexpr int64_t kLeastInner = 512, kMostSums = 4 << 20;
  if (s.batch > 1 || !s.transpose_a || s.transpose_b) return 1;
  const int64_t parts = std::min(count, s.inner / kLeastInner);
  return 3 * parts >= 2 * count && parts * s.c_elems() <= kMostSums ? parts : 1;
}

std::vector<Tile> make_tiles(const MatmulShape& s, DType dtype) {
  constexpr int64_t kRowGrain = 16, kColGrain = 64, kInnerGrain = 64;
  const int64_t count = tile_count(s, dtype);
  std::vector<Tile> tiles;
  const auto add = [&](const Tile& tile) { tiles.push_back(tile); };
  if (s.batch >= count) {
    for (const auto& [first, n] : split_range(s.batch, count, 1)) add({first, n, 0, s.rows, 0, s.cols, 0, s.inner});
    return tiles;
  }
  if (const int64_t parts = parts_of_inner(s, count); parts > 1) {
    for (const auto& [first, n] : split_range(s.inner, parts, kInnerGrain)) add({0, 1, 0, s.rows, 0, s.cols, first, n});
    return tiles;
  }
  // Rows of A have no gaps, nor do columns of a transposed B.
  const int64_t each = ceil_div(count, s.batch);
  const bool enough_cols = s.cols >= each * 2 * kColGrain, enough_rows = s.rows >= each * 2 * kRowGrain;
  const bool few_rows_do = s.rows >= each * kRowGrain && !(s.transpose_b && enough_cols);
  const bool by_rows = enough_rows || few_rows_do;
  for (int64_t g = 0; g < s.batch; ++g) {
    if (by_rows)
      for (const auto& [first, n] : split_range(s.rows, each, kRowGrain)) add({g, 1, first, n, 0, s.cols, 0, s.inner});
    else
      for (const auto& [first, n] : split_range(s.cols, each, kColGrain)) add({g, 1, 0, s.rows, first, n, 0, s.inner});
  }
  return tiles;
}

// ---- preparing -----------------------------------------------------------------------------------------------------

TileKind make_kind(const MatmulShape& s, const Tile& tile, memory::data_type type, memory::data_type result,
                   bool adds) {
  TileKind kind;
  kind.batch = tile.batch;
  kind.rows = tile.rows;
  kind.cols = tile.cols;
  kind.inner = tile.inner;
  kind.transposes_a = s.transpose_a && tile.rows < s.rows;
  kind.copies_c = s.transpose_b && tile.cols < s.cols;
  const auto desc = [&](memory::data_type of, int64_t rows, int64_t cols, int64_t row_stride, int64_t col_stride,
                        int64_t matrix) {
    if (tile.batch == 1) return memory::desc({rows, cols}, of, memory::dims{row_stride, col_stride});
    return memory::desc({tile.batch, rows, cols}, of, memory::dims{matrix, row_stride, col_stride});
  };
  kind.a = s.transpose_a && !kind.transposes_a ? desc(type, tile.rows, tile.inner, 1, s.rows, s.a_elems())
                                               : desc(type, tile.rows, tile.inner, tile.inner, 1, s.a_elems());
  kind.b = s.transpose_b ? desc(type, tile.inner, tile.cols, 1, tile.inner, s.b_elems())
                         : desc(type, tile.inner, tile.cols, s.cols, 1, s.b_elems());
  kind.c = desc(result, tile.rows, tile.cols, kind.copies_c ? tile.cols : s.cols, 1, s.c_elems());
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::post_ops adding;
  if (adds) adding.append_sum();
  attr.set_post_ops(adding);
  const dnnl::matmul::primitive_desc pd({kind.a, kind.b, kind.c}, attr, onednn_engine());
  kind.scratch = pd.scratchpad_desc();
  kind.primitive = dnnl::matmul(pd);
  return kind;
}

// Scratch of the primitive, then of the copies.
size_t scratch_bytes(const TileKind& kind) {
  return aligned(kind.scratch.get_size()) + (kind.transposes_a ? aligned(kind.a.get_size()) : 0) +
         (kind.copies_c ? aligned(kind.c.get_size()) : 0);
}

DnnlMatmul make_matmul(const MatmulShape& shape, DType dtype, DType result, bool adds) {
  std::vector<Tile> tiles = make_tiles(shape, dtype);
  const bool sums_parts = tiles.front().inner < shape.inner;
  const DType of_tile = sums_parts ? DType::kF32 : result;
  DnnlMatmul m{.shape = shape,
               .element_bytes = size_of(dtype),
               .result_bytes = size_of(of_tile),
               .result = result,
               .adds = adds,
               .sums_parts = sums_parts,
               .kinds = {},
               .tiles = std::move(tiles),
               .kind_of_tile = {},
               .transpose = dtype == DType::kF32 ? loops().transpose.bytes_4 : loops().transpose.bytes_2};
  for (const Tile& tile : m.tiles) {
    auto found = std::find_if(m.kinds.begin(), m.kinds.end(), [&](const TileKind& kind) {
      return kind.batch == tile.batch && kind.rows == tile.rows && kind.cols == tile.cols && kind.inner == tile.inner;
    });
    if (found == m.kinds.end())
      found =
          m.kinds.insert(found, make_kind(shape, tile, onednn_type(dtype), onednn_type(of_tile), adds && !sums_parts));
    m.kind_of_tile.push_back(static_cast<size_t>(found - m.kinds.begin()));
    m.tile_scratch_bytes = std::max(m.tile_scratch_bytes, scratch_bytes(*found));
  }
  return m;
}

TileCalls make_calls(const DnnlMatmul& m) {
  TileCalls calls;
  for (const size_t at : m.kind_of_tile) {
    const TileKind& kind = m.kinds[at];
    calls.push_back({onednn_memory(kind.a), onednn_memory(kind.b), onednn_memory(kind.c), onednn_memory(kind.scratch),
                     dnnl::stream(onednn_engine())});
  }
  return calls;
}

// ---- running -------------------------------------------------------------------------------------------------------

// Copies `rows` rows of `row_bytes`, which start `from_stride` and `to_stride` bytes apart.
void copy_rows(std::byte* to, size_t to_stride, const std::byte* from, size_t from_stride, int64_t rows,
               size_t row_bytes) {
  for (int64_t row = 0; row < rows; ++row) std::memcpy(to + row * to_stride, from + row * from_stride, row_bytes);
}

// The sums of the parts of the inner axis follow the scratch of the tiles.
float* sums_of_parts(const DnnlMatmul& m, const KernelArguments& arguments) {
  return reinterpret_cast<float*>(arguments.scratch + m.tile_scratch_bytes * m.tiles.size());
}

void run_tile(const DnnlMatmul& m, size_t index, TileCall& call, const KernelArguments& arguments) {
  use_one_openmp_thread();
  const MatmulShape& s = m.shape;
  const Tile& tile = m.tiles[index];
  const TileKind& kind = m.kinds[m.kind_of_tile[index]];
  const auto bytes = [&](int64_t elems) { return static_cast<size_t>(elems) * m.element_bytes; };
  std::byte* const a =
      arguments.operands[0] + bytes(tile.first_batch * s.a_elems() + tile.first_row * (s.transpose_a ? 1 : s.inner) +
                                    tile.first_inner * (s.transpose_a ? s.rows : 1));
  std::byte* const b =
      arguments.operands[1] + bytes(tile.first_batch * s.b_elems() + tile.first_col * (s.transpose_b ? s.inner : 1) +
                                    tile.first_inner * (s.transpose_b ? 1 : s.cols));
  const auto result_bytes = [&](int64_t elems) { return static_cast<size_t>(elems) * m.result_bytes; };
  std::byte* const c =
      m.sums_parts
          ? reinterpret_cast<std::byte*>(sums_of_parts(m, arguments) + static_cast<int64_t>(index) * s.c_elems())
          : arguments.results[0] +
                result_bytes(tile.first_batch * s.c_elems() + tile.first_row * s.cols + tile.first_col);
  std::byte* const scratch = arguments.scratch + index * m.tile_scratch_bytes;
  std::byte* const dense_a = scratch + aligned(kind.scratch.get_size());
  std::byte* const dense_c = dense_a + (kind.transposes_a ? aligned(kind.a.get_size()) : 0);
  if (kind.transposes_a) m.transpose(dense_a, s.inner, a, s.rows, s.inner, tile.rows);
  const size_t row = result_bytes(s.cols), dense_row = result_bytes(tile.cols);
  if (kind.copies_c && m.adds) copy_rows(dense_c, dense_row, c, row, tile.rows, dense_row);
  point(call.a, kind.transposes_a ? dense_a : a);
  point(call.b, b);
  point(call.c, kind.copies_c ? dense_c : c);
  point(call.scratch, scratch);
  const dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, call.a.get()},
                                  {DNNL_ARG_WEIGHTS, call.b.get()},
                                  {DNNL_ARG_DST, call.c.get()},
                                  {DNNL_ARG_SCRATCHPAD, call.scratch.get()}};
  execute(kind.primitive, call.stream, args, "matmul");
  if (kind.copies_c) copy_rows(c, row, dense_c, dense_row, tile.rows, dense_row);
}

// C = the sum of the parts, added to the third operand if there is one.
void finish_sums(const DnnlMatmul& m, const KernelArguments& arguments) {
  float* const sums = sums_of_parts(m, arguments);
  const int64_t elems = m.shape.c_elems();
  add_parts(arguments.pool, sums, static_cast<int64_t>(m.tiles.size()), elems, elems, [&](int64_t first, int64_t n) {
    if (m.adds) {
      float* const room = sums + elems + first;  // of a part that has been added
      add_elements(sums + first, read_elements(arguments.operands[2], m.result, first, n, room), n);
    }
    store_elements(arguments.results[0], m.result, first, sums + first, n);
  });
}

void run_matmul(const DnnlMatmul& m, const KernelArguments& arguments) {
  if (m.adds && !m.sums_parts && arguments.operands[2] != arguments.results[0])
    std::memcpy(arguments.results[0], arguments.operands[2],
                static_cast<size_t>(m.shape.batch * m.shape.c_elems()) * m.result_bytes);
  OneDnnCalls<TileCalls>::Borrowed calls(*m.calls, [&] { return make_calls(m); });
  arguments.pool.parallel_for(static_cast<int64_t>(m.tiles.size()), [&](int64_t tile) {
    run_tile(m, static_cast<size_t>(tile), (*calls)[static_cast<size_t>(tile)], arguments);
  });
  if (m.sums_parts) finish_sums(m, arguments);
}

size_t operand_bytes(const MatmulShape& shape, DType dtype, DType result) {
  return static_cast<size_t>(shape.batch) * (static_cast<size_t>(shape.a_elems() + shape.b_elems()) * size_of(dtype) +
                                             static_cast<size_t>(shape.c_elems()) * size_of(result));
}

}  // namespace

Kernel prepare_matmul_dnnl(const MatmulShape& shape, DType dtype, DType result, bool adds) {
  use_one_openmp_thread();
  try {
    DnnlMatmul m = make_matmul(shape, dtype, result, adds);
    m.calls->add(make_calls(m));
    const size_t sums = m.sums_parts ? m.tiles.size() * static_cast<size_t>(shape.c_elems()) * sizeof(float) : 0;
    const size_t scratch = m.tile_scratch_bytes * m.tiles.size() + sums;
    const char *const wide = result == dtype ? "" : ".wide", *const add = adds ? ".add" : "";
    return make_kernel<run_matmul>(fmt::format("matmul.dnnl.{}{}{}", name_of(dtype), wide, add), std::move(m), scratch);
  } catch (const dnnl::error& error) {
    check_available(operand_bytes(shape, dtype, result));  // it names exhausted memory only with some primitives
    fail(ErrorKind::kRun, "matmul: oneDNN cannot multiply ({}, {}) by ({}, {}) {}: {}", shape.rows, shape.inner,
         shape.inner, shape.cols, name_of(dtype), error.what());
  }
}

}  // namespace runner::backends
