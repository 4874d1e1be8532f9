// Maxima and sums of windows, and their gradients: plane by plane, a row of windows at a time.

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "backends/kernels/op_kernels.h"
#include "backends/kernels/plane.h"
#include "backends/kernels/rows_io.h"

namespace runner::backends {

namespace {

struct Pool {
  DType dtype;
  Plane plane;
  int64_t planes, chunks;
};

// Calls body(k, to, first, n) for each element k of the windows of row `row`, in order: the element of window
// `to` is element `first` of the plane, those of the n − 1 windows after it follow.
template <class Body>
void for_elements(const Plane& plane, int64_t row, const Body& body) {
  for (int64_t ky = 0; ky < plane.h.window.size; ++ky) {
    const IndexRange<int64_t> rows = plane.h.inside(ky);
    if (row < rows.begin || row >= rows.end) continue;
    const int64_t y = row * plane.h.window.stride + plane.h.window.element(ky);
    for (int64_t kx = 0; kx < plane.w.window.size; ++kx) {
      const IndexRange<int64_t> columns = plane.w.inside(kx);
      if (columns.size() == 0) continue;
      const int64_t x = columns.begin * plane.w.window.stride + plane.w.window.element(kx);
      body(ky * plane.w.window.size + kx, columns.begin, y * plane.w.size + x, columns.size());
    }
  }
}

// Scratch of a chunk: operands and result where storage is converted, and a row of windows.
template <class T>
struct PoolScratch {
  std::array<T*, 2> operands;
  T *out, *best;
  int32_t* at;
  size_t bytes;

  PoolScratch(const Pool& pool, std::byte* start) {
    ScratchRoom room(start);
    const int64_t converted = is_native(pool.dtype) ? 0 : std::max(pool.plane.size(), pool.plane.windows());
    operands = {room.take<T>(converted), room.take<T>(converted)};
    out = room.take<T>(converted);
    best = room.take<T>(pool.plane.w.windows);
    at = room.take<int32_t>(pool.plane.w.windows);
    bytes = room.size();
  }
};

// Whether windows of 2 × 2 elements follow each other, which has loops of its own.
bool is_of_four(const Plane& plane) {
  const Window two{.size = 2, .stride = 2};
  return plane.h.window == two && plane.w.window == two;
}

// `T`: as in WindowsOfFour.
template <class T>
const WindowsOfFour<T>& windows_of_four() {
  if constexpr (std::is_same_v<T, uint16_t>)
    return loops().windows_of_four_bf16;
  else
    return loops().windows_of_four.of<T>();
}

template <class T>
void largest_of_four(const Plane& plane, const T* x, T* windows) {
  windows_of_four<T>().largest(windows, x, plane.w.size, plane.h.windows, plane.w.windows);
}

template <class T>
void scatter_of_four(const Plane& plane, const T* x, const T* windows, T* out) {
  if (4 * plane.windows() < plane.size()) std::fill_n(out, plane.size(), T{0});
  windows_of_four<T>().spread_to_largest(out, x, windows, plane.w.size, plane.h.windows, plane.w.windows);
}

template <class T>
void largest(const Plane& plane, const T* x, T* windows) {
  if (is_of_four(plane)) return largest_of_four(plane, x, windows);
  for (int64_t row = 0; row < plane.h.windows; ++row) {
    T* const best = windows + row * plane.w.windows;
    std::fill_n(best, plane.w.windows, -std::numeric_limits<T>::infinity());
    for_elements(plane, row, [&](int64_t, int64_t to, int64_t first, int64_t n) {
      loops().windows.of<T>().largest(best + to, x + first, plane.w.window.stride, n);
    });
  }
}

template <class T>
void sum(const Plane& plane, const T* x, T* windows) {
  for (int64_t row = 0; row < plane.h.windows; ++row) {
    T* const sums = windows + row * plane.w.windows;
    std::fill_n(sums, plane.w.windows, T{0});
    for_elements(plane, row, [&](int64_t, int64_t to, int64_t first, int64_t n) {
      loops().windows.of<T>().add(sums + to, x + first, plane.w.window.stride, n);
    });
  }
}

template <class T>
void spread(const Plane& plane, const T* windows, T* x) {
  std::fill_n(x, plane.size(), T{0});
  for (int64_t row = 0; row < plane.h.windows; ++row)
    for_elements(plane, row, [&](int64_t, int64_t to, int64_t first, int64_t n) {
      loops().windows.of<T>().add_to(x + first, plane.w.window.stride, windows + row * plane.w.windows + to, n);
    });
}

// Adds the gradient of each window to its largest element.
template <class T>
void scatter(const Plane& plane, const T* x, const T* windows, T* out, const PoolScratch<T>& scratch) {
  if (is_of_four(plane)) return scatter_of_four(plane, x, windows, out);
  std::fill_n(out, plane.size(), T{0});
  for (int64_t row = 0; row < plane.h.windows; ++row) {
    std::fill_n(scratch.best, plane.w.windows, -std::numeric_limits<T>::infinity());
    std::fill_n(scratch.at, plane.w.windows, -1);
    for_elements(plane, row, [&](int64_t k, int64_t to, int64_t first, int64_t n) {
      loops().windows.of<T>().largest_at(scratch.best + to, scratch.at + to, x + first, plane.w.window.stride, n,
                                         static_cast<int32_t>(k));
    });
    for (int64_t i = 0; i < plane.w.windows; ++i) {
      const int64_t ky = scratch.at[i] / plane.w.window.size, kx = scratch.at[i] % plane.w.window.size;
      const int64_t y = row * plane.h.window.stride + plane.h.window.element(ky);
      out[y * plane.w.size + i * plane.w.window.stride + plane.w.window.element(kx)] +=
          windows[row * plane.w.windows + i];
    }
  }
}

// Computes a plane of the result. a, b: the planes of the operands.
template <class T, Op op>
void compute(const Plane& plane, const T* a, const T* b, T* out, const PoolScratch<T>& scratch) {
  if constexpr (op == Op::kMaxPool) largest(plane, a, out);
  if constexpr (op == Op::kMaxPoolGrad) scatter(plane, a, b, out, scratch);
  if constexpr (op == Op::kWindowSum) sum(plane, a, out);
  if constexpr (op == Op::kWindowSumGrad) spread(plane, a, out);
}

template <class T, Op op>
void run_pool(const Pool& pool, const KernelArguments& arguments) {
  const int64_t size = pool.plane.size(), windows = pool.plane.windows();
  const int64_t of_first = op == Op::kWindowSumGrad ? windows : size;
  const int64_t of_result = op == Op::kMaxPool || op == Op::kWindowSum ? windows : size;
  const size_t bytes = PoolScratch<T>(pool, nullptr).bytes;
  arguments.pool.parallel_for(pool.chunks, [&](int64_t chunk) {
    const PoolScratch<T> scratch(pool, arguments.scratch + static_cast<size_t>(chunk) * bytes);
    const IndexRange<int64_t> planes = part_of(pool.planes, chunk, pool.chunks);
    const auto read = [&](size_t operand, int64_t i, int64_t each) -> const T* {
      if (operand >= arguments.operands.size()) return nullptr;
      return read_elements(arguments.operands[operand], pool.dtype, i * each, each, scratch.operands[operand]);
    };
    for (int64_t i = planes.begin; i < planes.end; ++i) {
      T* const out = place_of_elements(arguments.results[0], pool.dtype, i * of_result, scratch.out);
      compute<T, op>(pool.plane, read(0, i, of_first), read(1, i, windows), out, scratch);
      if (!is_native(pool.dtype)) store_elements(arguments.results[0], pool.dtype, i * of_result, out, of_result);
    }
  });
}

// Without a conversion of the planes.
template <Op op>
void run_of_four_bf16(const Pool& pool, const KernelArguments& arguments) {
  const int64_t size = pool.plane.size(), windows = pool.plane.windows();
  arguments.pool.parallel_for(pool.chunks, [&](int64_t chunk) {
    const IndexRange<int64_t> planes = part_of(pool.planes, chunk, pool.chunks);
    for (int64_t i = planes.begin; i < planes.end; ++i) {
      const uint16_t* const x = operand<uint16_t>(arguments, 0) + i * size;
      if constexpr (op == Op::kMaxPool)
        largest_of_four(pool.plane, x, result<uint16_t>(arguments) + i * windows);
      else
        scatter_of_four(pool.plane, x, operand<uint16_t>(arguments, 1) + i * windows,
                        result<uint16_t>(arguments) + i * size);
    }
  });
}

template <Op op>
Kernel prepare_pool(const KernelRequest& request) {
  constexpr double kElementNs = 0.3;
  const Shape& x = op == Op::kWindowSumGrad ? request.result.shape : request.operands[0].shape;
  Pool pool{.dtype = request.result.dtype, .plane = Plane::of(x, request.attrs), .planes = x[0] * x[1], .chunks = 0};
  const auto elements = static_cast<double>(pool.planes * pool.plane.windows() * pool.plane.elements());
  pool.chunks = chunk_count(kElementNs * elements, pool.planes);
  const std::string name = fmt::format("{}.{}", name_of(op), name_of(pool.dtype));
  const auto scratch = [&](size_t bytes) { return static_cast<size_t>(pool.chunks) * bytes; };
  if constexpr (op == Op::kMaxPool || op == Op::kMaxPoolGrad)
    if (pool.dtype == DType::kBf16 && is_of_four(pool.plane)) return make_kernel<run_of_four_bf16<op>>(name, pool);
  if (pool.dtype == DType::kF64)
    return make_kernel<run_pool<double, op>>(name, pool, scratch(PoolScratch<double>(pool, nullptr).bytes));
  return make_kernel<run_pool<float, op>>(name, pool, scratch(PoolScratch<float>(pool, nullptr).bytes));
}

}  // namespace

// ---- reference kernels ----------------------------------------------------------------------------------------------

namespace reference {
namespace {

// Calls body(window, element) for each element of each window that is not in the padding, as positions in tensors of
// windows and of elements; `shape`: of the tensor that the windows move over.
template <class Body>
void for_windows(const Shape& shape, std::span<const int64_t> numbers, const Body& body) {
  const std::vector<Window> windows = windows_of(numbers);
  const bool is_plane = windows.size() == 2;
  const Window h = is_plane ? windows[0] : Window{}, w = windows.back();
  const int64_t height = is_plane ? shape[2] : 1, width = shape.back();
  int64_t window = 0;
  for (int64_t plane = 0; plane < shape[0] * shape[1]; ++plane)
    for (int64_t i = 0; i < h.count(height); ++i)
      for (int64_t j = 0; j < w.count(width); ++j, ++window)
        for (int64_t k = 0; k < h.size * w.size; ++k) {
          const int64_t y = i * h.stride + k / w.size * h.dilation - h.before;
          const int64_t x = j * w.stride + k % w.size * w.dilation - w.before;
          if (y >= 0 && y < height && x >= 0 && x < width) body(window, (plane * height + y) * width + x);
        }
}

// The position of the largest element of each window: the first, or the last NaN.
std::vector<int64_t> positions_of_largest(const Call& call, const Tensor& x) {
  std::vector<int64_t> positions;
  for_windows(x.shape(), call.attrs, [&](int64_t window, int64_t element) {
    if (static_cast<size_t>(window) == positions.size()) positions.push_back(element);
    int64_t& best = positions.back();
    if (x[element] > x[best] || std::isnan(x[element])) best = element;
  });
  return positions;
}

void max_pool_loop(const Call& call, Operands in, Tensor& out) {
  const std::vector<int64_t> positions = positions_of_largest(call, in[0]);
  for (int64_t i = 0; i < out.shape().elements(); ++i) out[i] = in[0][positions[static_cast<size_t>(i)]];
}

void max_pool_grad_loop(const Call& call, Operands in, Tensor& out) {
  const std::vector<int64_t> positions = positions_of_largest(call, in[0]);
  for (int64_t i = 0; i < in[1].shape().elements(); ++i) out[positions[static_cast<size_t>(i)]] += in[1][i];
}

void window_sum_loop(const Call& call, Operands in, Tensor& out) {
  for_windows(in[0].shape(), call.attrs, [&](int64_t window, int64_t element) { out[window] += in[0][element]; });
}

void window_sum_grad_loop(const Call& call, Operands in, Tensor& out) {
  for_windows(out.shape(), call.attrs, [&](int64_t window, int64_t element) { out[element] += in[0][window]; });
}

}  // namespace
}  // namespace reference

constexpr OpKernels op_kernels::kMaxPool = {.reference = reference::max_pool_loop,
                                            .prepare = prepare_pool<Op::kMaxPool>};
constexpr OpKernels op_kernels::kMaxPoolGrad = {.reference = reference::max_pool_grad_loop,
                                                .prepare = prepare_pool<Op::kMaxPoolGrad>};
constexpr OpKernels op_kernels::kWindowSum = {.reference = reference::window_sum_loop,
                                              .prepare = prepare_pool<Op::kWindowSum>};
constexpr OpKernels op_kernels::kWindowSumGrad = {.reference = reference::window_sum_grad_loop,
                                                  .prepare = prepare_pool<Op::kWindowSumGrad>};

}  // namespace runner::backends
