// Indexing ops. Indices are checked before anything is written.

#include <cstring>

#include <fmt/format.h>

#include "backends/kernels/isa/loops.h"
#include "backends/kernels/op_kernels.h"
#include "backends/kernels/prepare.h"
#include "backends/tensor/alignment.h"
#include "schema/base/error.h"

namespace runner::backends {

namespace {

void check_indices(const int64_t* indices, int64_t n, int64_t size, const char* op) {
  for (int64_t i = 0; i < n; ++i)
    RUN_CHECK(indices[i] >= 0 && indices[i] < size, ErrorKind::kRun,
              "{}: index {} at position {} is out of range, size {}", op, indices[i], i, size);
}

// ---- gather and scatter_add ----------------------------------------------------------------------------------------

// The index tensor and x of gather and scatter_add. Except along `axis`, axes of x are at least as large.
struct Along {
  DType dtype;
  int rank, axis;
  std::array<int64_t, Shape::kMaxRank> dims;  // of the index
  std::array<int64_t, Shape::kMaxRank> x_strides;
  int64_t axis_size, index_elems, x_elems;
};

Along make_along(const KernelRequest& request) {
  const Shape& x = request.operands[0].shape;
  const Shape& index = request.operands[1].shape;
  const int axis = x.axis(request.attrs[0], "gather");
  Along along{request.operands[0].dtype, x.rank(), axis, {}, x.strides(), x[axis], index.elements(), x.elements()};
  std::copy(index.dims().begin(), index.dims().end(), along.dims.begin());
  return along;
}

// Calls body(position in the index, position in x) in order.
template <class Body>
void walk(const Along& along, const int64_t* index, const Body& body) {
  std::array<int64_t, Shape::kMaxRank> at{};
  const auto axis = static_cast<size_t>(along.axis);
  int64_t base = 0;  // position in x without the term of `axis`
  for (int64_t flat = 0; flat < along.index_elems; ++flat) {
    body(flat, base + index[flat] * along.x_strides[axis]);
    for (auto d = static_cast<size_t>(along.rank); d-- > 0;) {
      const int64_t stride = d == axis ? 0 : along.x_strides[d];
      base += stride;
      if (++at[d] < along.dims[d]) break;
      base -= stride * along.dims[d];
      at[d] = 0;
    }
  }
}

void run_gather(const Along& along, const KernelArguments& arguments) {
  const auto* index = operand<int64_t>(arguments, 1);
  check_indices(index, along.index_elems, along.axis_size, "gather");
  const size_t bytes = size_of(along.dtype);
  walk(along, index, [&](int64_t flat, int64_t source) {
    std::memcpy(arguments.results[0] + static_cast<size_t>(flat) * bytes,
                arguments.operands[0] + static_cast<size_t>(source) * bytes, bytes);
  });
}

// Adds in the order of the index, with sums in the compute type in scratch, and rounds once.
template <class T>
void scatter(const Along& along, const KernelArguments& arguments) {
  const EltwiseLoops& eltwise = loops().eltwise;
  const auto dtype = static_cast<size_t>(along.dtype);
  auto* sums = reinterpret_cast<T*>(arguments.scratch);
  T* addends = sums + along.x_elems;
  eltwise.load[dtype](sums, arguments.operands[0], 1, along.x_elems);
  eltwise.load[dtype](addends, arguments.operands[2], 1, along.index_elems);
  walk(along, operand<int64_t>(arguments, 1), [&](int64_t flat, int64_t target) { sums[target] += addends[flat]; });
  eltwise.store[dtype](arguments.results[0], sums, along.x_elems);
}

void run_scatter_add(const Along& along, const KernelArguments& arguments) {
  check_indices(operand<int64_t>(arguments, 1), along.index_elems, along.axis_size, "scatter_add");
  switch (compute_of(along.dtype)) {
    case Compute::kF32: return scatter<float>(along, arguments);
    case Compute::kF64: return scatter<double>(along, arguments);
    case Compute::kI64: return scatter<uint64_t>(along, arguments);
  }
}

// ---- index_copy ----------------------------------------------------------------------------------------------------

// x is (outer, size, row), the source (outer, n, row). Rows are in bytes.
struct IndexCopy {
  int64_t outer, size, n;
  size_t row;

  size_t bytes() const { return static_cast<size_t>(outer * size) * row; }
};

// The result may be x itself.
void run_index_copy(const IndexCopy& c, const KernelArguments& arguments) {
  const auto* index = operand<int64_t>(arguments, 1);
  check_indices(index, c.n, c.size, "index_copy");
  std::byte* const y = arguments.results[0];
  if (y != arguments.operands[0]) std::memcpy(y, arguments.operands[0], c.bytes());
  const std::byte* source = arguments.operands[2];
  for (int64_t i = 0; i < c.outer; ++i)
    for (int64_t k = 0; k < c.n; ++k, source += c.row)
      std::memcpy(y + static_cast<size_t>(i * c.size + index[k]) * c.row, source, c.row);
}

// ---- one_hot -------------------------------------------------------------------------------------------------------

struct OneHot {
  int64_t n, classes;
};

void run_one_hot(const OneHot& o, const KernelArguments& arguments) {
  const auto* index = operand<int64_t>(arguments, 0);
  check_indices(index, o.n, o.classes, "one_hot");
  auto* out = result<float>(arguments);
  std::fill_n(out, o.n * o.classes, 0.0f);
  for (int64_t i = 0; i < o.n; ++i) out[i * o.classes + index[i]] = 1.0f;
}

// ---- embedding -----------------------------------------------------------------------------------------------------

struct Embedding {
  DType dtype;
  int64_t ids, rows, width;
  int64_t chunks;
};

void run_embedding(const Embedding& e, const KernelArguments& arguments) {
  const auto* ids = operand<int64_t>(arguments, 1);
  check_indices(ids, e.ids, e.rows, "embedding");
  const size_t row_bytes = static_cast<size_t>(e.width) * size_of(e.dtype);
  arguments.pool.parallel_for(e.chunks, [&](int64_t chunk) {
    const IndexRange<int64_t> range = part_of(e.ids, chunk, e.chunks);
    for (int64_t i = range.begin; i < range.end; ++i)
      std::copy_n(arguments.operands[0] + static_cast<size_t>(ids[i]) * row_bytes, row_bytes,
                  arguments.results[0] + static_cast<size_t>(i) * row_bytes);
  });
}

// For each row of the table, the positions of its id as a linked list in ascending order.
struct IdLists {
  int32_t* first;  // by row; −1: none
  int32_t* next;   // by position
};

size_t list_bytes(const Embedding& e) {
  return aligned(static_cast<size_t>(e.rows + e.ids) * sizeof(int32_t));
}
size_t row_buffer_bytes(const Embedding& e) {
  return aligned(static_cast<size_t>(e.width) * 8);
}

// Each chunk computes a range of rows of the table: it sums the gradients of a row in order and rounds once.
void run_embedding_grad(const Embedding& e, const KernelArguments& arguments) {
  const auto* ids = operand<int64_t>(arguments, 0);
  check_indices(ids, e.ids, e.rows, "embedding_grad");
  const IdLists lists{reinterpret_cast<int32_t*>(arguments.scratch),
                      reinterpret_cast<int32_t*>(arguments.scratch) + e.rows};
  std::fill_n(lists.first, e.rows, -1);
  for (int64_t i = e.ids; i-- > 0;) {
    lists.next[i] = lists.first[ids[i]];
    lists.first[ids[i]] = static_cast<int32_t>(i);
  }
  const EltwiseLoops& eltwise = loops().eltwise;
  const auto dtype = static_cast<size_t>(e.dtype), compute = static_cast<size_t>(compute_of(e.dtype));
  const size_t row_bytes = static_cast<size_t>(e.width) * size_of(e.dtype);
  arguments.pool.parallel_for(e.chunks, [&](int64_t chunk) {
    std::byte* sum = arguments.scratch + list_bytes(e) + static_cast<size_t>(2 * chunk) * row_buffer_bytes(e);
    std::byte* addend = sum + row_buffer_bytes(e);
    const IndexRange<int64_t> range = part_of(e.rows, chunk, e.chunks);
    for (int64_t row = range.begin; row < range.end; ++row) {
      std::byte* target = arguments.results[0] + static_cast<size_t>(row) * row_bytes;
      int32_t i = lists.first[row];
      if (i < 0) {
        std::fill_n(target, row_bytes, std::byte{0});
        continue;
      }
      const auto grad_of = [&](int32_t position) {
        return arguments.operands[1] + static_cast<size_t>(position) * row_bytes;
      };
      eltwise.load[dtype](sum, grad_of(i), 1, e.width);
      while ((i = lists.next[i]) >= 0) {
        eltwise.load[dtype](addend, grad_of(i), 1, e.width);
        eltwise.apply[static_cast<size_t>(Op::kAdd)][compute](sum, sum, addend, addend, e.width);
      }
      eltwise.store[dtype](target, sum, e.width);
    }
  });
}

Kernel prepare_gather(const KernelRequest& request) {
  return make_kernel<run_gather>(fmt::format("gather.{}", name_of(request.result.dtype)), make_along(request));
}

Kernel prepare_scatter_add(const KernelRequest& request) {
  const Along along = make_along(request);
  const size_t scratch = static_cast<size_t>(along.x_elems + along.index_elems) * size_of(compute_of(along.dtype));
  return make_kernel<run_scatter_add>(fmt::format("scatter_add.{}", name_of(along.dtype)), along, scratch);
}

Kernel prepare_index_copy(const KernelRequest& request) {
  const Shape& x = request.operands[0].shape;
  const int axis = x.axis(request.attrs[0], "index_copy");
  IndexCopy c{
      .outer = 1, .size = x[axis], .n = request.operands[1].shape.elements(), .row = size_of(request.result.dtype)};
  for (int i = 0; i < x.rank(); ++i) {
    if (i < axis) c.outer *= x[i];
    if (i > axis) c.row *= static_cast<size_t>(x[i]);
  }
  return make_kernel<run_index_copy>(fmt::format("index_copy.{}", name_of(request.result.dtype)), c);
}

Kernel prepare_one_hot(const KernelRequest& request) {
  return make_kernel<run_one_hot>("one_hot", OneHot{request.operands[0].shape.elements(), request.attrs[0]});
}

Kernel prepare_embedding(const KernelRequest& request) {
  const Shape& table = request.operands[0].shape;
  Embedding e{request.result.dtype, request.operands[1].shape.elements(), table[0], table[1], 1};
  e.chunks = chunk_count(0.05 * static_cast<double>(request.result.bytes()), e.ids);
  return make_kernel<run_embedding>(fmt::format("embedding.{}", name_of(e.dtype)), e);
}

Kernel prepare_embedding_grad(const KernelRequest& request) {
  const int64_t ids = request.operands[0].shape.elements();
  RUN_CHECK(ids < std::numeric_limits<int32_t>::max(), ErrorKind::kRun, "embedding_grad: too many ids: {}", ids);
  Embedding e{request.result.dtype, ids, request.attrs[0], request.result.shape.back(), 1};
  e.chunks = chunk_count(0.1 * static_cast<double>((ids + e.rows) * e.width), e.rows);
  const size_t scratch = list_bytes(e) + static_cast<size_t>(2 * e.chunks) * row_buffer_bytes(e);
  return make_kernel<run_embedding_grad>(fmt::format("embedding_grad.{}", name_of(e.dtype)), e, scratch);
}

}  // namespace

// ---- reference kernels ----------------------------------------------------------------------------------------------

namespace reference {
namespace {

void gather_loop(const Call& call, Operands in, Tensor& out) {
  const int axis = static_cast<int>(call.attr(0));
  for_each(out.shape(), [&](int64_t flat, Index index) {
    index[static_cast<size_t>(axis)] = checked(in[1].integer(flat), in[0].shape()[axis], "gather", flat);
    out[flat] = in[0][flat_index(in[0].shape(), index)];
  });
}

void scatter_add_loop(const Call& call, Operands in, Tensor& out) {
  const int axis = static_cast<int>(call.attr(0));
  out.values = in[0].values;
  for_each(in[1].shape(), [&](int64_t flat, Index index) {
    index[static_cast<size_t>(axis)] = checked(in[1].integer(flat), out.shape()[axis], "scatter_add", flat);
    out[flat_index(out.shape(), index)] += in[2][flat];
  });
}

void index_copy_loop(const Call& call, Operands in, Tensor& out) {
  const int axis = static_cast<int>(call.attr(0));
  out.values = in[0].values;
  for_each(in[2].shape(), [&](int64_t flat, Index index) {
    int64_t& along = index[static_cast<size_t>(axis)];
    along = checked(in[1].integer(along), out.shape()[axis], "index_copy", along);
    out[flat_index(out.shape(), index)] = in[2][flat];
  });
}

void one_hot_loop(const Call& call, Operands in, Tensor& out) {
  std::fill(out.values.begin(), out.values.end(), 0);
  for (int64_t i = 0; i < in[0].shape().elements(); ++i)
    out[i * call.attr(0) + checked(in[0].integer(i), call.attr(0), "one_hot", i)] = 1;
}

void embedding_loop(const Call&, Operands in, Tensor& out) {
  const int64_t width = in[0].shape()[1];
  for (int64_t i = 0; i < in[1].shape().elements(); ++i) {
    const int64_t row = checked(in[1].integer(i), in[0].shape()[0], "embedding", i);
    for (int64_t d = 0; d < width; ++d) out[i * width + d] = in[0][row * width + d];
  }
}

void embedding_grad_loop(const Call& call, Operands in, Tensor& out) {
  const int64_t width = out.shape()[1];
  std::fill(out.values.begin(), out.values.end(), 0);
  for (int64_t i = 0; i < in[0].shape().elements(); ++i) {
    const int64_t row = checked(in[0].integer(i), call.attr(0), "embedding_grad", i);
    for (int64_t d = 0; d < width; ++d) out[row * width + d] += in[1][i * width + d];
  }
}

}  // namespace
}  // namespace reference

constexpr OpKernels op_kernels::kGather = {.reference = reference::gather_loop, .prepare = prepare_gather};
constexpr OpKernels op_kernels::kScatterAdd = {.reference = reference::scatter_add_loop,
                                               .prepare = prepare_scatter_add};
constexpr OpKernels op_kernels::kIndexCopy = {.reference = reference::index_copy_loop, .prepare = prepare_index_copy};
constexpr OpKernels op_kernels::kOneHot = {.reference = reference::one_hot_loop, .prepare = prepare_one_hot};
constexpr OpKernels op_kernels::kEmbedding = {.reference = reference::embedding_loop, .prepare = prepare_embedding};
constexpr OpKernels op_kernels::kEmbeddingGrad = {.reference = reference::embedding_grad_loop,
                                                  .prepare = prepare_embedding_grad};

}  // namespace runner::backends
