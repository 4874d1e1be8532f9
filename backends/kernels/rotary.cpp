// Rotary embeddings: a table of cosines and sines, and the rotation by it.

#include <cmath>

#include <fmt/format.h>

#include "backends/kernels/op_kernels.h"
#include "backends/kernels/rows_io.h"
#include "backends/tensor/alignment.h"

namespace runner::backends {

namespace {

// Calls write(out), where `out` becomes elements [first, first + n) of storage.
template <class T, class Write>
void write_row(std::byte* data, DType dtype, int64_t first, int64_t n, T* room, const Write& write) {
  write(place_of_elements(data, dtype, first, room));
  if (!is_native(dtype)) store_elements(data, dtype, first, room, n);
}

struct RotaryTable {
  DType dtype;
  int64_t positions, half;
  int64_t chunks;

  size_t row_bytes() const { return aligned(static_cast<size_t>(3 * half) * sizeof(float)); }
};

// The angle is rounded to T, as in transformers; its cosine and sine are rounded once.
template <class T>
void fill_table(const RotaryTable& t, const KernelArguments& arguments) {
  const auto* positions = operand<int64_t>(arguments, 0);
  arguments.pool.parallel_for(t.chunks, [&](int64_t chunk) {
    T* const room = reinterpret_cast<T*>(arguments.scratch + static_cast<size_t>(chunk) * t.row_bytes());
    const T* const frequencies = read_elements(arguments.operands[1], t.dtype, 0, t.half, room + 2 * t.half);
    const IndexRange<int64_t> range = part_of(t.positions, chunk, t.chunks);
    for (int64_t p = range.begin; p < range.end; ++p)
      write_row(arguments.results[0], t.dtype, p * 2 * t.half, 2 * t.half, room, [&](T* row) {
        for (int64_t i = 0; i < t.half; ++i) {
          const auto angle = static_cast<double>(static_cast<T>(positions[p]) * frequencies[i]);
          row[i] = static_cast<T>(std::cos(angle));
          row[t.half + i] = static_cast<T>(std::sin(angle));
        }
      });
  });
}

Kernel prepare_rotary_table(const KernelRequest& request) {
  constexpr double kElementNs = 20;
  RotaryTable t{.dtype = request.result.dtype,
                .positions = request.operands[0].shape.elements(),
                .half = request.operands[1].shape[0],
                .chunks = 0};
  t.chunks = chunk_count(kElementNs * static_cast<double>(t.positions * t.half), t.positions);
  const size_t scratch = is_native(t.dtype) ? 0 : static_cast<size_t>(t.chunks) * t.row_bytes();
  const std::string name = fmt::format("rotary_table.{}", name_of(t.dtype));
  return t.dtype == DType::kF64 ? make_kernel<fill_table<double>>(name, t, scratch)
                                : make_kernel<fill_table<float>>(name, t, scratch);
}

struct Rotary {
  DType dtype, table_dtype;
  int64_t heads, tokens, width;
  int64_t rows;          // of x
  int64_t table_sample;  // elements of the table per sample; 0: all samples share it
  bool inverse;
  int64_t chunks;

  size_t row_bytes() const { return aligned(static_cast<size_t>(2 * width) * sizeof(float)); }
};

template <class T>
void rotate(const T* x, const T* cos, const T* sin, T* out, int64_t half, T sign) {
  RUNNER_VECTOR_LOOP
  for (int64_t i = 0; i < half; ++i) {
    const T low = x[i], high = x[half + i], turned = sin[i] * sign;
    out[i] = low * cos[i] - high * turned;
    out[half + i] = high * cos[i] + low * turned;
  }
}

template <class T>
void run_rotary(const Rotary& r, const KernelArguments& arguments) {
  arguments.pool.parallel_for(r.chunks, [&](int64_t chunk) {
    T* const room = reinterpret_cast<T*>(arguments.scratch + static_cast<size_t>(chunk) * r.row_bytes());
    const IndexRange<int64_t> range = part_of(r.rows, chunk, r.chunks);
    for (int64_t row = range.begin; row < range.end; ++row) {
      const int64_t at = row / (r.heads * r.tokens) * r.table_sample + row % r.tokens * r.width;
      const T* const cos = read_elements(arguments.operands[1], r.table_dtype, at, r.width, room + r.width);
      const T* const x = read_elements(arguments.operands[0], r.dtype, row * r.width, r.width, room);
      write_row(arguments.results[0], r.dtype, row * r.width, r.width, room,
                [&](T* out) { rotate(x, cos, cos + r.width / 2, out, r.width / 2, r.inverse ? T{-1} : T{1}); });
    }
  });
}

Kernel prepare_rotary(const KernelRequest& request) {
  constexpr double kElementNs = 0.4;
  const Shape& x = request.operands[0].shape;
  Rotary r{.dtype = request.operands[0].dtype,
           .table_dtype = request.operands[1].dtype,
           .heads = x[1],
           .tokens = x[2],
           .width = x[3],
           .rows = x[3] == 0 ? 0 : x.elements() / x[3],
           .table_sample = request.operands[1].shape.rank() == 3 ? x[2] * x[3] : 0,
           .inverse = request.attrs[0] != 0,
           .chunks = 0};
  r.chunks = chunk_count(kElementNs * static_cast<double>(x.elements()), r.rows);
  const bool converts = !is_native(r.dtype) || !is_native(r.table_dtype);
  const size_t scratch = converts ? static_cast<size_t>(r.chunks) * r.row_bytes() : 0;
  const std::string name = fmt::format("rotary.{}", name_of(r.dtype));
  return r.dtype == DType::kF64 ? make_kernel<run_rotary<double>>(name, r, scratch)
                                : make_kernel<run_rotary<float>>(name, r, scratch);
}

}  // namespace

// ---- reference kernels ----------------------------------------------------------------------------------------------

namespace reference {
namespace {

void rotary_table_loop(const Call& call, Operands in, Tensor& out) {
  const int64_t half = in[1].shape()[0];
  for (int64_t p = 0; p < in[0].shape().elements(); ++p)
    for (int64_t i = 0; i < half; ++i) {
      const Real product = in[0][p] * in[1][i];
      const Real angle =
          call.result.dtype == DType::kF64 ? Real{static_cast<double>(product)} : Real{static_cast<float>(product)};
      out[p * 2 * half + i] = std::cos(angle);
      out[p * 2 * half + half + i] = std::sin(angle);
    }
}

void rotary_loop(const Call& call, Operands in, Tensor& out) {
  const Shape& shape = out.shape();
  const int64_t width = shape[3], half = width / 2, samples = in[1].shape().rank() == 3 ? shape[2] * width : 0;
  const Real sign = call.attr(0) != 0 ? -1 : 1;
  for (int64_t row = 0; row < out.rows(); ++row) {
    const int64_t table = row / (shape[1] * shape[2]) * samples + row % shape[2] * width, x = row * width;
    for (int64_t i = 0; i < half; ++i) {
      const Real cos = in[1][table + i], sin = sign * in[1][table + half + i];
      out[x + i] = in[0][x + i] * cos - in[0][x + half + i] * sin;
      out[x + half + i] = in[0][x + half + i] * cos + in[0][x + i] * sin;
    }
  }
}

}  // namespace
}  // namespace reference

constexpr OpKernels op_kernels::kRotaryTable = {.reference = reference::rotary_table_loop,
                                                .prepare = prepare_rotary_table};
constexpr OpKernels op_kernels::kRotary = {.reference = reference::rotary_loop, .prepare = prepare_rotary};

}  // namespace runner::backends
