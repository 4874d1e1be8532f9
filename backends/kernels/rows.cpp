// Softmax, cross-entropy and layer normalisation over the last axis: preparing, chunks of rows, and 16-bit storage,
// which is widened to f32 block by block.

#include <fmt/format.h>

#include "backends/ir/program.h"
#include "backends/kernels/isa/loops.h"
#include "backends/kernels/make_kernel.h"
#include "backends/kernels/prepare.h"
#include "backends/tensor/alignment.h"
#include "schema/base/error.h"

namespace runner::backends {

namespace {

template <class T>
const RowLoops<T>& row_loops();
template <>
const RowLoops<float>& row_loops() {
  return loops().rows_f32;
}
template <>
const RowLoops<double>& row_loops() {
  return loops().rows_f64;
}

// Rows are processed in blocks of about this many elements; a block of 16-bit storage is widened into scratch.
constexpr int64_t kBlockElems = 4096;

struct Rows {
  Op op;
  DType dtype;
  int64_t rows, cols;
  int64_t chunks;
  int64_t ignore = 0;  // cross-entropy
  double smoothing = 0;
  double eps = 0;  // layer norm
  bool has_weights = false;
  int wide_operands = 0;  // operands of (rows, cols), the result not counted

  bool is_native() const { return size_of(dtype) == size_of(compute_of(dtype)); }
  int64_t block_rows() const { return std::max<int64_t>(kBlockElems / std::max<int64_t>(cols, 1), 1); }
  // Of one buffer for a block of rows, and of one for a value for each row or column.
  size_t wide_bytes() const { return padded(block_rows() * cols); }
  size_t narrow_bytes() const { return padded(std::max(block_rows(), cols)); }
  static size_t padded(int64_t elems) { return aligned(static_cast<size_t>(elems) * 8); }
};

// A block of rows as T: views of the operands where they are T already, widened copies in scratch otherwise.
template <class T>
class Block {
 public:
  Block(const Rows& rows, const KernelArguments& arguments, int64_t chunk)
      : rows_(rows),
        arguments_(arguments),
        free_(arguments.scratch + static_cast<size_t>(chunk) * scratch_bytes(rows)) {}

  // One chunk's scratch: at most two wide operands, the wide result, and narrow ones.
  static size_t scratch_bytes(const Rows& rows) {
    return rows.is_native() ? 0
                            : static_cast<size_t>(rows.wide_operands + 1) * rows.wide_bytes() + 4 * rows.narrow_bytes();
  }

  // Elements [first, first + n) of an operand.
  const T* read(size_t index, int64_t first, int64_t n) {
    const std::byte* source = arguments_.operands[index] + static_cast<size_t>(first) * size_of(rows_.dtype);
    if (rows_.is_native()) return reinterpret_cast<const T*>(source);
    T* target = take(n);
    loops().eltwise.load[static_cast<size_t>(rows_.dtype)](target, source, 1, n);
    return target;
  }
  // Where elements [first, first + n) of the result are to be written; commit() stores them.
  T* write(int64_t first, int64_t n) {
    std::byte* target = arguments_.results[0] + static_cast<size_t>(first) * size_of(rows_.dtype);
    if (rows_.is_native()) return reinterpret_cast<T*>(target);
    pending_ = {target, take(n), n};
    return pending_.values;
  }
  void commit() {
    if (!rows_.is_native())
      loops().eltwise.store[static_cast<size_t>(rows_.dtype)](pending_.target, pending_.values, pending_.n);
  }

 private:
  struct Pending {
    std::byte* target;
    T* values;
    int64_t n;
  };
  T* take(int64_t n) {
    T* place = reinterpret_cast<T*>(free_);
    free_ += Rows::padded(n);
    return place;
  }

  const Rows& rows_;
  const KernelArguments& arguments_;
  std::byte* free_;
  Pending pending_{};
};

// Calls body(block, first row, rows) for the blocks of every chunk.
template <class T, class Body>
void for_blocks(const Rows& rows, const KernelArguments& arguments, const Body& body) {
  arguments.pool.parallel_for(rows.chunks, [&](int64_t chunk) {
    const Range range = part_of(rows.rows, chunk, rows.chunks);
    for (int64_t first = range.begin; first < range.end; first += rows.block_rows()) {
      Block<T> block(rows, arguments, chunk);
      body(block, first, std::min(rows.block_rows(), range.end - first));
      block.commit();
    }
  });
}

// ---- softmax -------------------------------------------------------------------------------------------------------

template <class T>
void softmax(const Rows& rows, const KernelArguments& arguments) {
  const auto loop = rows.op == Op::kSoftmax ? row_loops<T>().softmax : row_loops<T>().log_softmax;
  for_blocks<T>(rows, arguments, [&](Block<T>& block, int64_t first, int64_t n) {
    const T* x = block.read(0, first * rows.cols, n * rows.cols);
    loop(x, block.write(first * rows.cols, n * rows.cols), n, rows.cols);
  });
}

// ---- cross-entropy -------------------------------------------------------------------------------------------------

void check_labels(const Rows& rows, const int64_t* labels) {
  for (int64_t r = 0; r < rows.rows; ++r)
    RUN_CHECK(labels[r] == rows.ignore || (labels[r] >= 0 && labels[r] < rows.cols), ErrorKind::kRun,
              "cross_entropy: label {} at row {} is out of range: the model has {} classes", labels[r], r, rows.cols);
}

template <class T>
void cross_entropy(const Rows& rows, const KernelArguments& arguments) {
  const bool forward = rows.op == Op::kCrossEntropy;
  const auto* labels = operand<int64_t>(arguments, 1);
  check_labels(rows, labels);
  for_blocks<T>(rows, arguments, [&](Block<T>& block, int64_t first, int64_t n) {
    const CrossEntropyRows<T> in{.logits = block.read(0, first * rows.cols, n * rows.cols),
                                 .labels = labels + first,
                                 .weights = rows.has_weights ? block.read(forward ? 2 : 3, 0, rows.cols) : nullptr,
                                 .grad = forward ? nullptr : block.read(2, first, n),
                                 .rows = n,
                                 .classes = rows.cols,
                                 .ignore = rows.ignore,
                                 .smoothing = rows.smoothing};
    if (forward)
      row_loops<T>().cross_entropy(in, block.write(first, n));
    else
      row_loops<T>().cross_entropy_grad(in, block.write(first * rows.cols, n * rows.cols));
  });
}

// ---- layer normalisation -------------------------------------------------------------------------------------------

template <class T>
LayerNormRows<T> layer_norm_rows(const Rows& rows, Block<T>& block, int64_t first, int64_t n) {
  const auto wide = [&](size_t index) { return block.read(index, first * rows.cols, n * rows.cols); };
  LayerNormRows<T> in{
      .x = wide(0), .gamma = nullptr, .beta = nullptr, .grad = nullptr, .rows = n, .width = rows.cols, .eps = rows.eps};
  if (rows.op != Op::kLayerNormGradGamma) in.gamma = block.read(1, 0, rows.cols);
  if (rows.op == Op::kLayerNorm) in.beta = block.read(2, 0, rows.cols);
  if (rows.op == Op::kLayerNormGradX) in.grad = wide(2);
  if (rows.op == Op::kLayerNormGradGamma) in.grad = wide(1);
  return in;
}

template <class T>
void layer_norm(const Rows& rows, const KernelArguments& arguments) {
  const auto loop = rows.op == Op::kLayerNorm ? row_loops<T>().layer_norm : row_loops<T>().layer_norm_grad_x;
  for_blocks<T>(rows, arguments, [&](Block<T>& block, int64_t first, int64_t n) {
    const LayerNormRows<T> in = layer_norm_rows(rows, block, first, n);
    loop(in, block.write(first * rows.cols, n * rows.cols));
  });
}

// Each chunk sums its rows into accumulators behind the blocks' scratch; the chunks are then added in order.
template <class T>
void layer_norm_grad_gamma(const Rows& rows, const KernelArguments& arguments) {
  auto* sums =
      reinterpret_cast<double*>(arguments.scratch + static_cast<size_t>(rows.chunks) * Block<T>::scratch_bytes(rows));
  arguments.pool.parallel_for(rows.chunks, [&](int64_t chunk) {
    double* sum = sums + chunk * rows.cols;
    std::fill_n(sum, rows.cols, 0.0);
    const Range range = part_of(rows.rows, chunk, rows.chunks);
    for (int64_t first = range.begin; first < range.end; first += rows.block_rows()) {
      Block<T> block(rows, arguments, chunk);
      row_loops<T>().layer_norm_grad_gamma(
          layer_norm_rows(rows, block, first, std::min(rows.block_rows(), range.end - first)), sum);
    }
  });
  loops().reduce.fold_rows[ReduceLoops::kSum][static_cast<size_t>(Compute::kF64)](
      sums, sums + rows.cols, rows.chunks - 1, rows.cols, rows.cols);
  store_rounded(Compute::kF64, reinterpret_cast<const std::byte*>(sums), rows.cols, rows.dtype, arguments.results[0]);
}

// ---- preparing -----------------------------------------------------------------------------------------------------

template <void (*f32)(const Rows&, const KernelArguments&), void (*f64)(const Rows&, const KernelArguments&)>
void run_rows(const Rows& rows, const KernelArguments& arguments) {
  rows.dtype == DType::kF64 ? f64(rows, arguments) : f32(rows, arguments);
}

Rows make_rows(const KernelRequest& request, double element_ns) {
  const TensorType& x = request.operands[0];
  RUN_CHECK(is_float(x.dtype), ErrorKind::kRun, "{}: wants a float tensor, got {}", name_of(request.op), x.to_string());
  Rows rows{.op = request.op, .dtype = x.dtype, .rows = 0, .cols = x.shape.back(), .chunks = 0};
  if (rows.cols > 0) rows.rows = x.shape.elements() / rows.cols;
  for (const TensorType& type : request.operands) rows.wide_operands += type.shape == x.shape && type.shape.rank() > 1;
  rows.wide_operands = std::max(rows.wide_operands, 1);
  const double slow = x.dtype == DType::kF64 ? 15 : 1;
  rows.chunks = chunk_count(element_ns * slow * static_cast<double>(x.shape.elements()), rows.rows);
  return rows;
}

template <void (*run)(const Rows&, const KernelArguments&)>
Kernel make_rows_kernel(const Rows& rows, size_t more_scratch = 0) {
  const size_t scratch = static_cast<size_t>(rows.chunks) * Block<float>::scratch_bytes(rows) + more_scratch;
  return make_kernel<run>(fmt::format("{}.{}", name_of(rows.op), name_of(rows.dtype)), rows, scratch);
}

}  // namespace

Kernel prepare_softmax(const KernelRequest& request) {
  return make_rows_kernel<run_rows<softmax<float>, softmax<double>>>(make_rows(request, 0.6));
}

Kernel prepare_cross_entropy(const KernelRequest& request) {
  Rows rows = make_rows(request, 0.6);
  rows.ignore = request.attrs[0];
  rows.smoothing = unpack_f64(request.attrs[1]);
  rows.has_weights = request.operands.size() > (request.op == Op::kCrossEntropy ? 2u : 3u);
  return make_rows_kernel<run_rows<cross_entropy<float>, cross_entropy<double>>>(rows);
}

Kernel prepare_layer_norm(const KernelRequest& request) {
  Rows rows = make_rows(request, 0.4);
  rows.eps = unpack_f64(request.attrs[0]);
  if (request.op != Op::kLayerNormGradGamma)
    return make_rows_kernel<run_rows<layer_norm<float>, layer_norm<double>>>(rows);
  rows.chunks = std::max<int64_t>(rows.chunks, 1);
  const size_t sums = static_cast<size_t>(rows.chunks * rows.cols) * sizeof(double);
  return make_rows_kernel<run_rows<layer_norm_grad_gamma<float>, layer_norm_grad_gamma<double>>>(rows, sums);
}

}  // namespace runner::backends
