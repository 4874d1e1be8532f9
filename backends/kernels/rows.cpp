// Softmax, cross-entropy, norms, the largest values and ranks of labels over the last axis: chunks of rows, and
// conversion of 16-bit storage to f32 block by block.

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "backends/ir/program.h"
#include "backends/kernels/isa/scalar_ops.h"
#include "backends/kernels/op_kernels.h"
#include "backends/kernels/rows_io.h"
#include "backends/tensor/alignment.h"
#include "schema/base/error.h"

namespace runner::backends {

namespace {

// Elements per block of rows. Blocks of 16-bit storage are converted in scratch.
constexpr int64_t kBlockElems = 4096;

struct Rows {
  Op op;
  DType dtype;
  int64_t rows, cols;
  int64_t chunks;
  int64_t ignore = 0;  // cross-entropy
  double smoothing = 0;
  double eps = 0;  // layer norm
  int64_t k = 0;   // top_k
  bool has_weights = false;
  int wide_operands = 0;  // number of operands of (rows, cols)

  int64_t block_rows() const { return std::max<int64_t>(kBlockElems / std::max<int64_t>(cols, 1), 1); }
  // Scratch for a block of rows, and for one value per row or column.
  size_t wide_bytes() const { return padded(block_rows() * cols); }
  size_t narrow_bytes() const { return padded(std::max(block_rows(), cols)); }
  static size_t padded(int64_t elems) { return aligned(static_cast<size_t>(elems) * 8); }
};

// A block of rows as T: pointers into the operands if they are T, else converted copies in scratch.
template <class T>
class Block {
 public:
  Block(const Rows& rows, const KernelArguments& arguments, int64_t chunk)
      : rows_(rows),
        arguments_(arguments),
        free_(arguments.scratch + static_cast<size_t>(chunk) * scratch_bytes(rows)) {}

  // Scratch of one chunk: wide operands, the wide result, and narrow operands.
  static size_t scratch_bytes(const Rows& rows) {
    return is_native(rows.dtype)
               ? 0
               : static_cast<size_t>(rows.wide_operands + 1) * rows.wide_bytes() + 4 * rows.narrow_bytes();
  }

  // Returns elements [first, first + n) of an operand.
  const T* read(size_t index, int64_t first, int64_t n) {
    return read_elements(arguments_.operands[index], rows_.dtype, first, n, take(n));
  }
  // Returns where to write elements [first, first + n) of the result; commit() stores them.
  T* write(int64_t first, int64_t n) {
    written_ = {first, n, place_of_elements(arguments_.results[0], rows_.dtype, first, take(n))};
    return written_.values;
  }
  void commit() {
    if (!is_native(rows_.dtype))
      store_elements(arguments_.results[0], rows_.dtype, written_.first, written_.values, written_.n);
  }

 private:
  struct Written {
    int64_t first, n;
    T* values;
  };
  // Returns scratch for converted elements; null if elements are not converted.
  T* take(int64_t n) {
    if (is_native(rows_.dtype)) return nullptr;
    T* place = reinterpret_cast<T*>(free_);
    free_ += Rows::padded(n);
    return place;
  }

  const Rows& rows_;
  const KernelArguments& arguments_;
  std::byte* free_;
  Written written_{};
};

// Calls body(block, first row, rows) for each block of each chunk.
template <class T, class Body>
void for_blocks(const Rows& rows, const KernelArguments& arguments, const Body& body) {
  arguments.pool.parallel_for(rows.chunks, [&](int64_t chunk) {
    const IndexRange<int64_t> range = part_of(rows.rows, chunk, rows.chunks);
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
  const auto loop = rows.op == Op::kSoftmax ? loops().rows.of<T>().softmax : loops().rows.of<T>().log_softmax;
  for_blocks<T>(rows, arguments, [&](Block<T>& block, int64_t first, int64_t n) {
    const T* x = block.read(0, first * rows.cols, n * rows.cols);
    loop(x, block.write(first * rows.cols, n * rows.cols), n, rows.cols);
  });
}

// ---- cross-entropy -------------------------------------------------------------------------------------------------

void check_labels(const Rows& rows, const int64_t* labels) {
  for (int64_t r = 0; r < rows.rows; ++r)
    RUN_CHECK(labels[r] == rows.ignore || (labels[r] >= 0 && labels[r] < rows.cols), ErrorKind::kRun,
              "cross_entropy: label {} at row {} is out of range, the model has {} classes", labels[r], r, rows.cols);
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
      loops().rows.of<T>().cross_entropy(in, block.write(first, n));
    else
      loops().rows.of<T>().cross_entropy_grad(in, block.write(first * rows.cols, n * rows.cols));
  });
}

// ---- layer norm and RMS norm ---------------------------------------------------------------------------------------

// Whether the op sums over rows: the gradient of the weight.
bool sums_rows(Op op) {
  return op == Op::kLayerNormGradGamma || op == Op::kRmsNormGradWeight;
}

template <class T>
LayerNormRows<T> norm_rows(const Rows& rows, Block<T>& block, int64_t first, int64_t n) {
  const auto wide = [&](size_t index) { return block.read(index, first * rows.cols, n * rows.cols); };
  LayerNormRows<T> in{
      .x = wide(0), .gamma = nullptr, .beta = nullptr, .grad = nullptr, .rows = n, .width = rows.cols, .eps = rows.eps};
  if (!sums_rows(rows.op)) in.gamma = block.read(1, 0, rows.cols);
  if (rows.op == Op::kLayerNorm) in.beta = block.read(2, 0, rows.cols);
  if (rows.op == Op::kLayerNormGradX || rows.op == Op::kRmsNormGradX) in.grad = wide(2);
  if (sums_rows(rows.op)) in.grad = wide(1);
  return in;
}

template <class T>
void norm(const Rows& rows, const KernelArguments& arguments) {
  const RowLoops<T>& table = loops().rows.of<T>();
  const auto loop = rows.op == Op::kLayerNorm        ? table.layer_norm
                    : rows.op == Op::kLayerNormGradX ? table.layer_norm_grad_x
                    : rows.op == Op::kRmsNorm        ? table.rms_norm
                                                     : table.rms_norm_grad_x;
  for_blocks<T>(rows, arguments, [&](Block<T>& block, int64_t first, int64_t n) {
    const LayerNormRows<T> in = norm_rows(rows, block, first, n);
    loop(in, block.write(first * rows.cols, n * rows.cols));
  });
}

// Each chunk sums its rows in accumulators after the scratch of the blocks; then the chunks are added in order.
template <class T>
void norm_grad_weight(const Rows& rows, const KernelArguments& arguments) {
  auto* sums =
      reinterpret_cast<double*>(arguments.scratch + static_cast<size_t>(rows.chunks) * Block<T>::scratch_bytes(rows));
  const auto loop = rows.op == Op::kLayerNormGradGamma ? loops().rows.of<T>().layer_norm_grad_gamma
                                                       : loops().rows.of<T>().rms_norm_grad_weight;
  arguments.pool.parallel_for(rows.chunks, [&](int64_t chunk) {
    double* sum = sums + chunk * rows.cols;
    std::fill_n(sum, rows.cols, 0.0);
    const IndexRange<int64_t> range = part_of(rows.rows, chunk, rows.chunks);
    for (int64_t first = range.begin; first < range.end; first += rows.block_rows()) {
      Block<T> block(rows, arguments, chunk);
      loop(norm_rows(rows, block, first, std::min(rows.block_rows(), range.end - first)), sum);
    }
  });
  loops().reduce.fold_rows[ReduceLoops::kSum][static_cast<size_t>(Compute::kF64)](
      sums, sums + rows.cols, rows.chunks - 1, rows.cols, rows.cols);
  store_rounded(Compute::kF64, reinterpret_cast<const std::byte*>(sums), rows.cols, rows.dtype, arguments.results[0]);
}

// ---- ranks of labels ------------------------------------------------------------------------------------------------

template <class T>
void label_rank(const Rows& rows, const KernelArguments& arguments) {
  const auto* labels = operand<int64_t>(arguments, 1);
  auto* out = result<LabelRank>(arguments);
  for_blocks<T>(rows, arguments, [&](Block<T>& block, int64_t first, int64_t n) {
    loops().rows.of<T>().label_rank(block.read(0, first * rows.cols, n * rows.cols), labels + first, out + first, n,
                                    rows.cols);
  });
}

// ---- the largest values --------------------------------------------------------------------------------------------

// Whether value i of a row is larger than value k: NaN is larger than any number; of equal values the first is larger.
template <class T>
bool is_larger_value(const T* x, int64_t i, int64_t k) {
  const bool i_is_nan = x[i] != x[i], k_is_nan = x[k] != x[k];
  if (i_is_nan || k_is_nan) return i_is_nan && (!k_is_nan || i < k);
  return x[i] > x[k] || (x[i] == x[k] && i < k);
}

// A heap of the k largest so far, with the smallest of them on top.
template <class T>
void top_of_row(const T* x, int64_t n, int64_t* top, int64_t k) {
  const auto larger = [x](int64_t i, int64_t j) { return is_larger_value(x, i, j); };
  std::iota(top, top + k, 0);
  std::make_heap(top, top + k, larger);
  for (int64_t i = k; i < n; ++i) {
    if (!larger(i, top[0])) continue;
    std::pop_heap(top, top + k, larger);
    top[k - 1] = i;
    std::push_heap(top, top + k, larger);
  }
  std::sort_heap(top, top + k, larger);
}

template <class T>
void top_k(const Rows& rows, const KernelArguments& arguments) {
  auto* out = result<int64_t>(arguments);
  for_blocks<T>(rows, arguments, [&](Block<T>& block, int64_t first, int64_t n) {
    const T* x = block.read(0, first * rows.cols, n * rows.cols);
    for (int64_t r = 0; r < n; ++r) top_of_row(x + r * rows.cols, rows.cols, out + (first + r) * rows.k, rows.k);
  });
}

// ---- preparing -----------------------------------------------------------------------------------------------------

template <void (*f32)(const Rows&, const KernelArguments&), void (*f64)(const Rows&, const KernelArguments&)>
void run_rows(const Rows& rows, const KernelArguments& arguments) {
  rows.dtype == DType::kF64 ? f64(rows, arguments) : f32(rows, arguments);
}

Rows make_rows(const KernelRequest& request, double element_ns) {
  const TensorType& x = request.operands[0];
  RUN_CHECK(is_float(x.dtype), ErrorKind::kRun, "{}: expected a float tensor, got {}", name_of(request.op),
            x.to_string());
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

Kernel prepare_label_rank(const KernelRequest& request) {
  return make_rows_kernel<run_rows<label_rank<float>, label_rank<double>>>(make_rows(request, 0.2));
}

Kernel prepare_top_k(const KernelRequest& request) {
  Rows rows = make_rows(request, 1);
  rows.k = request.attrs[0];
  return make_rows_kernel<run_rows<top_k<float>, top_k<double>>>(rows);
}

Kernel prepare_norm(const KernelRequest& request) {
  Rows rows = make_rows(request, 0.4);
  rows.eps = unpack_f64(request.attrs[0]);
  if (!sums_rows(request.op)) return make_rows_kernel<run_rows<norm<float>, norm<double>>>(rows);
  rows.chunks = std::max<int64_t>(rows.chunks, 1);
  const size_t sums = static_cast<size_t>(rows.chunks * rows.cols) * sizeof(double);
  return make_rows_kernel<run_rows<norm_grad_weight<float>, norm_grad_weight<double>>>(rows, sums);
}

}  // namespace

// ---- reference kernels ----------------------------------------------------------------------------------------------

namespace reference {
namespace {

// log Σ exp of row r, relative to its maximum.
Real log_sum_exp(const Tensor& x, int64_t r) {
  const int64_t width = x.shape().back();
  Real top = -std::numeric_limits<Real>::infinity(), sum = 0;
  for (int64_t c = 0; c < width; ++c) top = scalar_ops::Scalar<Op::kMax>::reference(top, x[r * width + c]);
  for (int64_t c = 0; c < width; ++c) sum += std::exp(x[r * width + c] - top);
  return top + std::log(sum);
}

void softmax_loop(const Call& call, Operands in, Tensor& out) {
  const int64_t width = out.shape().back();
  for (int64_t r = 0; r < out.rows(); ++r) {
    const Real lse = log_sum_exp(in[0], r);
    for (int64_t c = 0; c < width; ++c) {
      const Real log_p = in[0][r * width + c] - lse;
      out[r * width + c] = call.op == Op::kSoftmax ? std::exp(log_p) : log_p;
    }
  }
}

// Target distribution of torch's cross_entropy: (1 − s)·w[y] at the label, plus s/C·w[c] for each class.
Real target_weight(const Call& call, const Tensor* weights, int64_t classes, int64_t label, int64_t c) {
  const Real smoothing = call.attr_f64(1);
  const Real weight = weights != nullptr ? (*weights)[c] : 1;
  return weight * (smoothing / static_cast<Real>(classes) + (c == label ? 1 - smoothing : 0));
}

// Label of row r, or −1 if it is ignored.
int64_t label_of(const Call& call, const Tensor& labels, int64_t r, int64_t classes) {
  const int64_t label = labels.integer(r);
  if (label == call.attr(0)) return -1;
  RUN_CHECK(label >= 0 && label < classes, ErrorKind::kRun,
            "cross_entropy: label {} at row {} is out of range, the model has {} classes", label, r, classes);
  return label;
}

void cross_entropy_loop(const Call& call, Operands in, Tensor& out) {
  const int64_t classes = in[0].shape().back();
  const Tensor* weights = in.size() > 2 ? &in[2] : nullptr;
  for (int64_t r = 0; r < in[0].rows(); ++r) {
    const int64_t label = label_of(call, in[1], r, classes);
    const Real lse = log_sum_exp(in[0], r);
    Real loss = 0;
    for (int64_t c = 0; c < classes && label >= 0; ++c) {
      const Real target = target_weight(call, weights, classes, label, c);
      if (target != 0) loss -= target * (in[0][r * classes + c] - lse);
    }
    out[r] = loss;
  }
}

void cross_entropy_grad_loop(const Call& call, Operands in, Tensor& out) {
  const int64_t classes = in[0].shape().back();
  const Tensor* weights = in.size() > 3 ? &in[3] : nullptr;
  for (int64_t r = 0; r < in[0].rows(); ++r) {
    const int64_t label = label_of(call, in[1], r, classes);
    const Real lse = log_sum_exp(in[0], r);
    Real total = 0;
    for (int64_t c = 0; c < classes; ++c) total += target_weight(call, weights, classes, label, c);
    for (int64_t c = 0; c < classes; ++c) {
      const Real p = std::exp(in[0][r * classes + c] - lse);
      out[r * classes + c] = label < 0 ? 0 : in[2][r] * (p * total - target_weight(call, weights, classes, label, c));
    }
  }
}

// Whether value i of a row is larger than value k.
bool is_larger(const Tensor& x, int64_t row, int64_t i, int64_t k) {
  const Real a = x[row + i], b = x[row + k];
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && (!std::isnan(b) || i < k);
  return a > b || (a == b && i < k);
}

void label_rank_loop(const Call&, Operands in, Tensor& out) {
  const int64_t width = in[0].shape().back();
  for (int64_t r = 0; r < in[0].rows(); ++r) {
    const int64_t label = in[1].integer(r);
    const bool is_class = label >= 0 && label < width;
    int64_t rank = is_class ? 0 : -1, largest = 0;
    bool has_nan = false;
    for (int64_t c = 0; c < width; ++c) {
      if (is_class && is_larger(in[0], r * width, c, label)) ++rank;
      if (is_larger(in[0], r * width, c, largest)) largest = c;
      has_nan = has_nan || std::isnan(in[0][r * width + c]);
    }
    out[r * 3] = static_cast<Real>(rank);
    out[r * 3 + 1] = static_cast<Real>(largest);
    out[r * 3 + 2] = has_nan ? 1 : 0;
  }
}

void top_k_loop(const Call& call, Operands in, Tensor& out) {
  const int64_t width = in[0].shape().back(), k = call.attr(0);
  for (int64_t r = 0; r < in[0].rows(); ++r) {
    std::vector<int64_t> order(static_cast<size_t>(width));
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, [&](int64_t i, int64_t j) { return is_larger(in[0], r * width, i, j); });
    for (int64_t i = 0; i < k; ++i) out[r * k + i] = static_cast<Real>(order[static_cast<size_t>(i)]);
  }
}

struct RowMoments {
  Real mean = 0, rstd = 0;
};

RowMoments moments(const Call& call, const Tensor& x, int64_t r) {
  const int64_t width = x.shape().back();
  RowMoments m;
  Real variance = 0;
  const bool is_rms = call.op == Op::kRmsNorm || call.op == Op::kRmsNormGradX || call.op == Op::kRmsNormGradWeight;
  for (int64_t d = 0; d < width && !is_rms; ++d) m.mean += x[r * width + d] / static_cast<Real>(width);
  for (int64_t d = 0; d < width; ++d)
    variance += (x[r * width + d] - m.mean) * (x[r * width + d] - m.mean) / static_cast<Real>(width);
  m.rstd = 1 / std::sqrt(variance + static_cast<Real>(call.attr_f64(0)));
  return m;
}

void norm_loop(const Call& call, Operands in, Tensor& out) {
  const int64_t width = out.shape().back();
  for (int64_t r = 0; r < out.rows(); ++r) {
    const RowMoments m = moments(call, in[0], r);
    for (int64_t d = 0; d < width; ++d)
      out[r * width + d] = (in[0][r * width + d] - m.mean) * m.rstd * in[1][d] + (in.size() > 2 ? in[2][d] : 0);
  }
}

// dx = rstd · (gγ − mean(gγ) − x̂ · mean(gγ · x̂))
void norm_grad_x_loop(const Call& call, Operands in, Tensor& out) {
  const int64_t width = out.shape().back();
  for (int64_t r = 0; r < out.rows(); ++r) {
    const RowMoments m = moments(call, in[0], r);
    Real mean_g = 0, mean_gx = 0;
    const auto normal = [&](int64_t d) { return (in[0][r * width + d] - m.mean) * m.rstd; };
    const auto scaled = [&](int64_t d) { return in[1][d] * in[2][r * width + d]; };
    for (int64_t d = 0; d < width && call.op == Op::kLayerNormGradX; ++d)
      mean_g += scaled(d) / static_cast<Real>(width);
    for (int64_t d = 0; d < width; ++d) mean_gx += scaled(d) * normal(d) / static_cast<Real>(width);
    for (int64_t d = 0; d < width; ++d) out[r * width + d] = m.rstd * (scaled(d) - mean_g - normal(d) * mean_gx);
  }
}

void norm_grad_weight_loop(const Call& call, Operands in, Tensor& out) {
  const int64_t width = out.shape().back();
  std::fill(out.values.begin(), out.values.end(), 0);
  for (int64_t r = 0; r < in[0].rows(); ++r) {
    const RowMoments m = moments(call, in[0], r);
    for (int64_t d = 0; d < width; ++d) out[d] += in[1][r * width + d] * (in[0][r * width + d] - m.mean) * m.rstd;
  }
}

}  // namespace
}  // namespace reference

constexpr OpKernels op_kernels::kSoftmax = {.reference = reference::softmax_loop, .prepare = prepare_softmax};
constexpr OpKernels op_kernels::kLogSoftmax = {.reference = reference::softmax_loop, .prepare = prepare_softmax};
constexpr OpKernels op_kernels::kCrossEntropy = {.reference = reference::cross_entropy_loop,
                                                 .prepare = prepare_cross_entropy};
constexpr OpKernels op_kernels::kCrossEntropyGrad = {.reference = reference::cross_entropy_grad_loop,
                                                     .prepare = prepare_cross_entropy};
constexpr OpKernels op_kernels::kLabelRank = {.reference = reference::label_rank_loop, .prepare = prepare_label_rank};
constexpr OpKernels op_kernels::kLayerNorm = {.reference = reference::norm_loop, .prepare = prepare_norm};
constexpr OpKernels op_kernels::kLayerNormGradX = {.reference = reference::norm_grad_x_loop, .prepare = prepare_norm};
constexpr OpKernels op_kernels::kLayerNormGradGamma = {.reference = reference::norm_grad_weight_loop,
                                                       .prepare = prepare_norm};
constexpr OpKernels op_kernels::kTopK = {.reference = reference::top_k_loop, .prepare = prepare_top_k};
constexpr OpKernels op_kernels::kRmsNorm = {.reference = reference::norm_loop, .prepare = prepare_norm};
constexpr OpKernels op_kernels::kRmsNormGradX = {.reference = reference::norm_grad_x_loop, .prepare = prepare_norm};
constexpr OpKernels op_kernels::kRmsNormGradWeight = {.reference = reference::norm_grad_weight_loop,
                                                      .prepare = prepare_norm};

}  // namespace runner::backends
