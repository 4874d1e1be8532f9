// Reductions over any axes, as passes (outer, n, inner) -> (outer, inner), from the last group of reduced axes to the
// first.
//
// A pass is cut into pieces of its n axis and blocks of its inner axis, by shape only. Each piece has accumulators in
// scratch, and pieces are combined in order, so results do not depend on the number of threads. Values stay
// accumulators (f64 for sums of floats) between passes.

#include <cmath>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "backends/kernels/isa/loops.h"
#include "backends/kernels/isa/scalar_ops.h"
#include "backends/kernels/op_kernels.h"
#include "backends/kernels/prepare.h"
#include "backends/tensor/rounding.h"
#include "backends/tensor/shape.h"
#include "schema/base/error.h"

namespace runner::backends {

namespace {

constexpr int64_t kPieceElems = 64 << 10;  // elements per piece
constexpr int64_t kColumnBlock = 512;
constexpr int64_t kConvertElems = 1024;  // elements per block of converted storage

struct Pass {
  int64_t outer, n, inner;
  int64_t pieces;         // of n
  int64_t column_blocks;  // of inner

  int64_t piece_begin(int64_t piece) const { return n * piece / pieces; }
};

struct TensorReduction {
  ReduceLoops::Kind kind;
  DType from, to;
  Compute accumulator;
  std::vector<Pass> passes;
};

Pass make_pass(int64_t outer, int64_t n, int64_t inner) {
  const int64_t piece_rows = std::max<int64_t>(kPieceElems / inner, 16);
  return {outer, n, inner, std::max<int64_t>(ceil_div(n, piece_rows), 1), ceil_div(inner, kColumnBlock)};
}

// Groups of adjacent axes that are all kept or all reduced, with the products of their sizes.
struct Axes {
  std::vector<int64_t> sizes;
  std::vector<bool> reduced;
};
Axes group_axes(const Shape& shape, std::span<const int64_t> reduced_axes) {
  Axes axes;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const bool reduced = std::find(reduced_axes.begin(), reduced_axes.end(), axis) != reduced_axes.end();
    if (axes.sizes.empty() || axes.reduced.back() != reduced) {
      axes.sizes.push_back(1);
      axes.reduced.push_back(reduced);
    }
    axes.sizes.back() *= shape[axis];
  }
  return axes;
}

std::vector<Pass> make_passes(Axes axes) {
  std::vector<Pass> passes;
  int64_t inner = 1;
  while (!axes.sizes.empty()) {
    const int64_t size = axes.sizes.back();
    const bool reduced = axes.reduced.back();
    axes.sizes.pop_back();
    axes.reduced.pop_back();
    if (!reduced) {
      inner *= size;
      continue;
    }
    int64_t outer = 1;
    for (const int64_t s : axes.sizes) outer *= s;
    passes.push_back(make_pass(outer, size, inner));
  }
  if (passes.empty()) passes.push_back(make_pass(1, 1, inner));  // nothing is reduced: a copy
  return passes;
}

size_t accumulator_bytes(const Pass& pass) {
  return static_cast<size_t>(pass.outer * pass.pieces * pass.inner) * 8;
}

// Bytes of one accumulator.
size_t width(const TensorReduction& r) {
  return size_of(r.accumulator);
}

void set_identity(const TensorReduction& r, std::byte* acc, int64_t n) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  constexpr auto kMinInteger = std::numeric_limits<int64_t>::min(), kMaxInteger = std::numeric_limits<int64_t>::max();
  const double number = r.kind == ReduceLoops::kSum ? 0 : r.kind == ReduceLoops::kMax ? -kInf : kInf;
  const int64_t integer = r.kind == ReduceLoops::kSum ? 0 : r.kind == ReduceLoops::kMax ? kMinInteger : kMaxInteger;
  switch (r.accumulator) {
    case Compute::kF32: std::fill_n(reinterpret_cast<float*>(acc), n, static_cast<float>(number)); break;
    case Compute::kF64: std::fill_n(reinterpret_cast<double*>(acc), n, number); break;
    case Compute::kI64: std::fill_n(reinterpret_cast<int64_t*>(acc), n, integer); break;
  }
}

// A rectangle of one pass's source: rows [row, row + rows) of n, columns [col, col + cols) of inner.
struct Rectangle {
  const std::byte* source;  // of element (row, col)
  int64_t rows, stride, cols;
};

void fold_registers(const TensorReduction& r, Compute compute, const Rectangle& in, std::byte* acc) {
  const ReduceLoops& reduce = loops().reduce;
  const auto at = static_cast<size_t>(compute);
  if (in.cols == 1 && in.stride == 1)
    reduce.fold_row[r.kind][at](acc, in.source, in.rows);
  else
    reduce.fold_rows[r.kind][at](acc, in.source, in.rows, in.stride, in.cols);
}

// Folds storage that is not a register type (bf16, f16, i32), converting it block by block.
void fold_storage(const TensorReduction& r, const Rectangle& in, std::byte* acc) {
  alignas(64) std::byte block[kConvertElems * 8];
  const auto load = loops().eltwise.load[static_cast<size_t>(r.from)];
  const auto bytes = static_cast<int64_t>(size_of(r.from));
  const Compute compute = compute_of(r.from);
  if (in.cols == 1 && in.stride == 1) {
    for (int64_t i = 0; i < in.rows; i += kConvertElems) {
      const int64_t n = std::min(kConvertElems, in.rows - i);
      load(block, in.source + i * bytes, 1, n);
      fold_registers(r, compute, {block, n, 1, 1}, acc);
    }
    return;
  }
  const int64_t rows_at_once = std::max<int64_t>(kConvertElems / in.cols, 1);
  for (int64_t row = 0; row < in.rows; row += rows_at_once) {
    const int64_t rows = std::min(rows_at_once, in.rows - row);
    for (int64_t i = 0; i < rows; ++i)
      load(block + static_cast<size_t>(i * in.cols) * size_of(compute), in.source + (row + i) * in.stride * bytes, 1,
           in.cols);
    fold_registers(r, compute, {block, rows, in.cols, in.cols}, acc);
  }
}

bool is_register_type(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF64 || dtype == DType::kI64;
}

void run_pass(const TensorReduction& r, const Pass& pass, const std::byte* source, bool first, std::byte* acc,
              WorkerPool& pool) {
  const int64_t units = pass.outer * pass.pieces * pass.column_blocks;
  const double element_ns = first && !is_register_type(r.from) ? 0.3 : 0.1;
  const double work_ns = element_ns * static_cast<double>(pass.outer * pass.n) * static_cast<double>(pass.inner);
  const int64_t chunks = chunk_count(work_ns, units);
  const auto source_bytes = static_cast<int64_t>(first ? size_of(r.from) : width(r));
  const auto acc_bytes = static_cast<int64_t>(width(r));
  pool.parallel_for(chunks, [&](int64_t chunk) {
    const IndexRange<int64_t> range = part_of(units, chunk, chunks);
    for (int64_t unit = range.begin; unit < range.end; ++unit) {
      const int64_t block = unit % pass.column_blocks, piece = unit / pass.column_blocks % pass.pieces;
      const int64_t outer = unit / pass.column_blocks / pass.pieces;
      const int64_t row = pass.piece_begin(piece), col = block * kColumnBlock;
      const Rectangle in{source + ((outer * pass.n + row) * pass.inner + col) * source_bytes,
                         pass.piece_begin(piece + 1) - row, pass.inner, std::min(kColumnBlock, pass.inner - col)};
      std::byte* target = acc + ((outer * pass.pieces + piece) * pass.inner + col) * acc_bytes;
      set_identity(r, target, in.cols);
      if (!first)
        fold_registers(r, r.accumulator, in, target);
      else if (is_register_type(r.from))
        fold_registers(r, compute_of(r.from), in, target);
      else
        fold_storage(r, in, target);
    }
  });
}

// Combines the pieces of each outer index in order and packs the results at the front of acc.
void combine_pieces(const TensorReduction& r, const Pass& pass, std::byte* acc) {
  if (pass.pieces == 1) return;
  const size_t row_bytes = static_cast<size_t>(pass.inner) * width(r);
  for (int64_t outer = 0; outer < pass.outer; ++outer) {
    std::byte* pieces = acc + static_cast<size_t>(outer * pass.pieces) * row_bytes;
    loops().reduce.fold_rows[r.kind][static_cast<size_t>(r.accumulator)](pieces, pieces + row_bytes, pass.pieces - 1,
                                                                         pass.inner, pass.inner);
    std::copy_n(pieces, row_bytes, acc + static_cast<size_t>(outer) * row_bytes);
  }
}

void run_reduce(const TensorReduction& r, const KernelArguments& arguments) {
  if (r.passes.empty()) return;  // an empty result
  const std::byte* source = arguments.operands[0];
  std::byte* acc = arguments.scratch;
  for (const Pass& pass : r.passes) {
    run_pass(r, pass, source, &pass == &r.passes.front(), acc, arguments.pool);
    combine_pieces(r, pass, acc);
    source = acc;
    acc += accumulator_bytes(pass);
  }
  const Pass& last = r.passes.back();
  store_rounded(r.accumulator, acc - accumulator_bytes(last), last.outer * last.inner, r.to, arguments.results[0]);
}

// ---- argmax --------------------------------------------------------------------------------------------------------

struct ArgMax {
  DType dtype;
  int64_t outer, n, inner;
};

// A column is copied to scratch if it is not contiguous or not a register type.
void run_argmax(const ArgMax& a, const KernelArguments& arguments) {
  const auto bytes = static_cast<int64_t>(size_of(a.dtype));
  const auto load = loops().eltwise.load[static_cast<size_t>(a.dtype)];
  const auto argmax = loops().reduce.argmax[static_cast<size_t>(compute_of(a.dtype))];
  const bool in_place = a.inner == 1 && is_register_type(a.dtype);
  auto* positions = result<int64_t>(arguments);
  for (int64_t o = 0; o < a.outer; ++o)
    for (int64_t j = 0; j < a.inner; ++j) {
      const std::byte* first = arguments.operands[0] + (o * a.n * a.inner + j) * bytes;
      if (!in_place) load(arguments.scratch, first, a.inner, a.n);
      positions[o * a.inner + j] = argmax(in_place ? first : arguments.scratch, a.n);
    }
}

// ---- preparing -----------------------------------------------------------------------------------------------------

template <ReduceLoops::Kind kind>
Kernel prepare_reduce(const KernelRequest& request) {
  const DType from = request.operands[0].dtype;
  TensorReduction r{
      .kind = kind, .from = from, .to = request.result.dtype, .accumulator = compute_of(from), .passes = {}};
  if (r.kind == ReduceLoops::kSum && r.accumulator == Compute::kF32) r.accumulator = Compute::kF64;
  if (request.result.shape.elements() > 0) r.passes = make_passes(group_axes(request.operands[0].shape, request.attrs));
  size_t scratch = 0;
  for (const Pass& pass : r.passes) scratch += accumulator_bytes(pass);
  return make_kernel<run_reduce>(fmt::format("{}.{}", name_of(request.op), name_of(from)), std::move(r), scratch);
}

Kernel prepare_argmax(const KernelRequest& request) {
  const Shape& shape = request.operands[0].shape;
  const int axis = static_cast<int>(request.attrs[0]);
  ArgMax a{request.operands[0].dtype, 1, shape[axis], 1};
  for (int i = 0; i < axis; ++i) a.outer *= shape[i];
  for (int i = axis + 1; i < shape.rank(); ++i) a.inner *= shape[i];
  const size_t scratch = static_cast<size_t>(a.n) * 8;
  return make_kernel<run_argmax>(fmt::format("argmax.{}", name_of(a.dtype)), a, scratch);
}

}  // namespace

// ---- reference kernels ----------------------------------------------------------------------------------------------

namespace reference {
namespace {

template <Op combine>
void reduce_loop(const Call& call, Operands in, Tensor& out) {
  constexpr Real kInfinity = std::numeric_limits<Real>::infinity();
  const Shape& shape = in[0].shape();
  std::array<bool, Shape::kMaxRank> reduced{};
  for (const int64_t axis : call.attrs) reduced[static_cast<size_t>(axis)] = true;
  constexpr Real start = combine == Op::kAdd ? 0 : combine == Op::kMax ? -kInfinity : kInfinity;
  std::fill(out.values.begin(), out.values.end(), start);
  for_each(shape, [&](int64_t flat, const Index& index) {
    int64_t at = 0;
    for (int axis = 0; axis < shape.rank(); ++axis)
      if (!reduced[static_cast<size_t>(axis)]) at = at * shape[axis] + index[static_cast<size_t>(axis)];
    out[at] = scalar_ops::Scalar<combine>::reference(out[at], in[0][flat]);
  });
}

void argmax_loop(const Call& call, Operands in, Tensor& out) {
  const int axis = static_cast<int>(call.attr(0));
  const Shape& shape = in[0].shape();
  for_each(out.shape(), [&](int64_t flat, const Index& index) {
    Index at{};
    for (int i = 0; i < out.shape().rank(); ++i)
      at[static_cast<size_t>(i < axis ? i : i + 1)] = index[static_cast<size_t>(i)];
    Real best = 0;
    for (int64_t k = 0; k < shape[axis]; ++k) {
      at[static_cast<size_t>(axis)] = k;
      const Real value = in[0][flat_index(shape, at)];
      if (k > 0 && !(value > best) && !(std::isnan(value) && !std::isnan(best))) continue;
      best = value;
      out[flat] = static_cast<Real>(k);
    }
  });
}

}  // namespace
}  // namespace reference

constexpr OpKernels op_kernels::kSum = {.reference = reference::reduce_loop<Op::kAdd>,
                                        .prepare = prepare_reduce<ReduceLoops::kSum>};
constexpr OpKernels op_kernels::kReduceMax = {.reference = reference::reduce_loop<Op::kMax>,
                                              .prepare = prepare_reduce<ReduceLoops::kMax>};
constexpr OpKernels op_kernels::kReduceMin = {.reference = reference::reduce_loop<Op::kMin>,
                                              .prepare = prepare_reduce<ReduceLoops::kMin>};
constexpr OpKernels op_kernels::kArgMax = {.reference = reference::argmax_loop, .prepare = prepare_argmax};

}  // namespace runner::backends
