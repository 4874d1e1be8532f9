// Convolution and its gradients as matrix products: the elements of a block of windows become the columns of a matrix
// (im2col), which the weights of a group multiply.
//
// The windows of a sample and group are cut into blocks whose columns stay in the cache. A unit of work is some of the
// blocks of y, or some of the channels of the gradient of x. The gradient of the weights is a sum over the blocks of
// all samples: they are cut into parts by shape; a part adds its blocks in order, then the parts are added in order.

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "backends/kernels/convolution.h"
#include "backends/kernels/rows_io.h"

namespace runner::backends {

namespace {

// Windows that are computed at once: whole rows, or a piece of one row. They follow each other in y.
struct WindowBlock {
  IndexRange<int64_t> rows, columns;

  int64_t windows() const { return rows.size() * columns.size(); }
};

struct Convolution : ConvShape {
  int64_t block_rows = 1, block_columns = 1;  // of windows in a block, at most
  int64_t parts = 1;
  int64_t units = 0, chunks = 0;

  int64_t block_windows() const { return block_rows * block_columns; }
  int64_t columns_of_blocks() const { return ceil_div(plane.w.windows, block_columns); }
  int64_t blocks() const { return ceil_div(plane.h.windows, block_rows) * columns_of_blocks(); }  // of a sample
  WindowBlock block(int64_t index) const {
    const int64_t row = index / columns_of_blocks() * block_rows, column = index % columns_of_blocks() * block_columns;
    return {{row, std::min(row + block_rows, plane.h.windows)},
            {column, std::min(column + block_columns, plane.w.windows)}};
  }
  // The position of the first window of a block in y, or the end of y.
  int64_t first_window(int64_t block_index) const {
    if (block_index == blocks()) return plane.windows();
    const WindowBlock first = block(block_index);
    return first.rows.begin * plane.w.windows + first.columns.begin;
  }

  bool is_native() const { return backends::is_native(dtype); }
  bool result_is_native() const { return backends::is_native(result); }
  // Whether each window is one element, in order: x is the matrix of columns.
  bool is_pointwise() const {
    const Window one{};
    return plane.h.window == one && plane.w.window == one;
  }
};

// ---- columns -------------------------------------------------------------------------------------------------------

// One element of each window of a row of a block: those of `n` windows, from window `first` of the row on, are elements
// x, x + stride, … of the channel; the others are padding.
struct WindowPiece {
  int64_t first, n, x;
};

// Calls body(piece) for each element of a window, and for each row of the block.
template <class Body>
void for_pieces(const Plane& plane, const WindowBlock& block, const Body& body) {
  const int64_t width = block.columns.size();
  for (int64_t ky = 0; ky < plane.h.window.size; ++ky)
    for (int64_t kx = 0; kx < plane.w.window.size; ++kx) {
      const IndexRange<int64_t> rows = plane.h.inside(ky), inside = plane.w.inside(kx);
      const int64_t first = std::clamp(inside.begin - block.columns.begin, int64_t{0}, width);
      const int64_t n = std::clamp(inside.end - block.columns.begin, first, width) - first;
      const int64_t x = (block.columns.begin + first) * plane.w.window.stride + plane.w.window.element(kx);
      for (int64_t row = block.rows.begin; row < block.rows.end; ++row) {
        const int64_t y = row * plane.h.window.stride + plane.h.window.element(ky);
        const bool is_inside = row >= rows.begin && row < rows.end;
        body(is_inside ? WindowPiece{first, n, y * plane.w.size + x} : WindowPiece{0, 0, 0});
      }
    }
}

// columns (elements of a window, windows of the block) = the elements of channel x, 0 in the padding.
template <class T>
void gather_columns(const Plane& plane, const WindowBlock& block, const T* x, T* columns) {
  const int64_t stride = plane.w.window.stride, width = block.columns.size();
  for_pieces(plane, block, [&](const WindowPiece& piece) {
    const T* const from = x + piece.x;
    T* const to = columns + piece.first;
    std::fill(columns, to, T{0});
    if (stride == 1)
      std::copy_n(from, piece.n, to);
    else
      for (int64_t i = 0; i < piece.n; ++i) to[i] = from[i * stride];
    std::fill(to + piece.n, columns + width, T{0});
    columns += width;
  });
}

// The transpose: adds the columns to the elements of channel x.
template <class T>
void scatter_columns(const Plane& plane, const WindowBlock& block, const T* columns, T* x) {
  const WindowLoops<T>& loops_of_windows = loops().windows.of<T>();
  for_pieces(plane, block, [&](const WindowPiece& piece) {
    if (piece.n > 0) loops_of_windows.add_to(x + piece.x, plane.w.window.stride, columns + piece.first, piece.n);
    columns += block.columns.size();
  });
}

// ---- a unit of work ------------------------------------------------------------------------------------------------

// Scratch of a chunk.
template <class T>
struct ConvScratch {
  T *columns, *panels;
  T *x, *w, *y;  // converted 16-bit storage
  size_t bytes;

  ConvScratch(const Convolution& c, std::byte* start) {
    ScratchRoom room(start);
    columns = room.take<T>(c.is_pointwise() ? 0 : c.columns() * c.block_windows());
    const auto panel_elems = matmul_loops<T>().panel_elems;
    panels = room.take<T>(std::max({panel_elems(c.block_windows(), c.columns()), panel_elems(c.block_windows(), c.out),
                                    panel_elems(c.columns(), c.block_windows())}));
    const bool converts = !c.is_native() || !c.result_is_native();
    x = room.take<T>(converts ? c.x_elems() : 0);
    w = room.take<T>(converts ? c.w_elems() : 0);
    y = room.take<T>(converts ? c.y_elems() : 0);
    bytes = room.size();
  }
};

template <class T>
class ConvWorker {
 public:
  ConvWorker(const Convolution& c, const KernelArguments& arguments, std::byte* scratch)
      : c_(c), arguments_(arguments), scratch_(c, scratch) {}

  // A part of the blocks of y, of one sample and group. operands: x, w
  void forward(int64_t unit) {
    const int64_t sample = unit / c_.parts;
    const IndexRange<int64_t> blocks = part_of(c_.blocks(), unit % c_.parts, c_.parts);
    const T* const x = read(0, sample, c_.x_elems(), scratch_.x);
    const T* const w = read(1, sample % c_.groups, c_.w_elems(), scratch_.w);
    T* const y = place(sample, c_.y_elems(), scratch_.y);
    for (int64_t i = blocks.begin; i < blocks.end; ++i) {
      const WindowBlock block = c_.block(i);
      multiply({at(block, y), c_.plane.windows()}, {w, c_.columns()}, columns_of(block, x), c_.out, block.windows(),
               c_.columns());
    }
    if (c_.result_is_native()) return;
    const int64_t first = c_.first_window(blocks.begin), windows = c_.first_window(blocks.end) - first;
    for (int64_t channel = 0; channel < c_.out; ++channel) {
      const int64_t begin = channel * c_.plane.windows() + first;
      store_elements(arguments_.results[0], c_.result, sample * c_.y_elems() + begin, y + begin, windows);
    }
  }

  // A part of the channels of x, of one sample and group. operands: grad of y, w
  void backward_x(int64_t unit) {
    const int64_t part = unit % c_.parts, sample = unit / c_.parts;
    const IndexRange<int64_t> channels = part_of(c_.in, part, c_.parts);
    const int64_t first = channels.begin * c_.plane.elements(), rows = channels.size() * c_.plane.elements();
    const T* const y = read(0, sample, c_.y_elems(), scratch_.y);
    const T* const w = read(1, sample % c_.groups, c_.w_elems(), scratch_.w);
    T* const x = place(sample, c_.x_elems(), scratch_.x) + channels.begin * c_.plane.size();
    if (!c_.is_pointwise()) std::fill_n(x, channels.size() * c_.plane.size(), T{0});
    for (int64_t i = 0; i < c_.blocks(); ++i) {
      const WindowBlock block = c_.block(i);
      const MatrixView<const T> grad{at(block, y), c_.plane.windows()};
      const MatrixView<T> columns = c_.is_pointwise() ? MatrixView<T>{at(block, x), c_.plane.windows()}
                                                      : MatrixView<T>{scratch_.columns, block.windows()};
      multiply(columns, {w + first, 1, c_.columns()}, grad, rows, block.windows(), c_.out);
      if (c_.is_pointwise()) continue;
      for (int64_t channel = 0; channel < channels.size(); ++channel)
        scatter_columns(c_.plane, block, scratch_.columns + channel * c_.plane.elements() * block.windows(),
                        x + channel * c_.plane.size());
    }
    if (c_.result_is_native()) return;
    const int64_t begin = sample * c_.x_elems() + channels.begin * c_.plane.size();
    store_elements(arguments_.results[0], c_.result, begin, x, channels.size() * c_.plane.size());
  }

  // sums (out, columns) = the gradient of the weights of a group over a part of the blocks. operands: x, grad of y
  void backward_w(int64_t group, int64_t part, T* sums) {
    std::fill_n(sums, c_.w_elems(), T{0});
    const IndexRange<int64_t> blocks = part_of(c_.batch * c_.blocks(), part, c_.parts);
    const T *x = nullptr, *y = nullptr;  // of the sample
    for (int64_t i = blocks.begin; i < blocks.end; ++i) {
      const int64_t sample = i / c_.blocks() * c_.groups + group;
      if (i == blocks.begin || i % c_.blocks() == 0) {
        x = read(0, sample, c_.x_elems(), scratch_.x);
        y = read(1, sample, c_.y_elems(), scratch_.y);
      }
      const WindowBlock block = c_.block(i % c_.blocks());
      const MatrixView<const T> columns = columns_of(block, x);
      multiply({sums, c_.columns()}, {at(block, y), c_.plane.windows()},
               {columns.data, columns.col_stride, columns.row_stride}, c_.out, c_.columns(), block.windows(), true);
    }
  }

 private:
  template <class E>
  E* at(const WindowBlock& block, E* windows) const {
    return windows + block.rows.begin * c_.plane.w.windows + block.columns.begin;
  }

  // (columns, windows of the block): the elements of each window of a sample.
  MatrixView<const T> columns_of(const WindowBlock& block, const T* x) const {
    if (c_.is_pointwise()) return {at(block, x), c_.plane.windows()};
    for (int64_t channel = 0; channel < c_.in; ++channel)
      gather_columns(c_.plane, block, x + channel * c_.plane.size(),
                     scratch_.columns + channel * c_.plane.elements() * block.windows());
    return {scratch_.columns, block.windows()};
  }

  void multiply(const MatrixView<T>& c, const MatrixView<const T>& a, const MatrixView<const T>& b, int64_t rows,
                int64_t cols, int64_t inner, bool add = false) const {
    multiply_views<T>(c, a, b, rows, cols, inner, scratch_.panels, add);
  }

  // Piece `index` of `elems` elements of an operand as T.
  const T* read(size_t operand, int64_t index, int64_t elems, T* room) const {
    return read_elements(arguments_.operands[operand], c_.dtype, index * elems, elems, room);
  }
  T* place(int64_t index, int64_t elems, T* room) const {
    return place_of_elements(arguments_.results[0], c_.result, index * elems, room);
  }

  const Convolution& c_;
  const KernelArguments& arguments_;
  const ConvScratch<T> scratch_;
};

// ---- running -------------------------------------------------------------------------------------------------------

// Calls body(worker, unit) for each unit.
template <class T, class Body>
void for_conv_units(const Convolution& c, const KernelArguments& arguments, const Body& body) {
  const size_t bytes = ConvScratch<T>(c, nullptr).bytes;
  arguments.pool.parallel_for(c.chunks, [&](int64_t chunk) {
    ConvWorker<T> worker(c, arguments, arguments.scratch + static_cast<size_t>(chunk) * bytes);
    const IndexRange<int64_t> units = part_of(c.units, chunk, c.chunks);
    for (int64_t unit = units.begin; unit < units.end; ++unit) body(worker, unit);
  });
}

template <class T>
void run_conv(const Convolution& c, const KernelArguments& arguments) {
  for_conv_units<T>(c, arguments, [](ConvWorker<T>& worker, int64_t unit) { worker.forward(unit); });
}

template <class T>
void run_conv_grad_x(const Convolution& c, const KernelArguments& arguments) {
  for_conv_units<T>(c, arguments, [](ConvWorker<T>& worker, int64_t unit) { worker.backward_x(unit); });
}

// The sums of the parts follow the scratch of the chunks, unless there is one part, which may be the result itself.
template <class T>
T* sums_of_parts(const Convolution& c, const KernelArguments& arguments) {
  if (c.parts == 1 && c.result_is_native()) return result<T>(arguments);
  return reinterpret_cast<T*>(arguments.scratch + static_cast<size_t>(c.chunks) * ConvScratch<T>(c, nullptr).bytes);
}

template <class T>
void run_conv_grad_w(const Convolution& c, const KernelArguments& arguments) {
  T* const sums = sums_of_parts<T>(c, arguments);
  for_conv_units<T>(c, arguments, [&](ConvWorker<T>& worker, int64_t unit) {
    worker.backward_w(unit % c.groups, unit / c.groups, sums + unit * c.w_elems());
  });
  const int64_t elems = c.groups * c.w_elems();
  if (sums == result<T>(arguments)) return;
  add_parts(arguments.pool, sums, c.parts, elems, elems, [&](int64_t first, int64_t n) {
    if (c.result_is_native())
      std::copy_n(sums + first, n, result<T>(arguments) + first);
    else
      store_elements(arguments.results[0], c.result, first, sums + first, n);
  });
}

// ---- preparing -----------------------------------------------------------------------------------------------------

// Chooses blocks whose columns are about 256 KiB: whole rows of windows, or pieces of a long row that are wide enough
// for fast products.
void cut_into_blocks(Convolution& c) {
  constexpr int64_t kBlockElems = 64 << 10, kLeastWindows = 128;
  const int64_t windows = std::max(kBlockElems / std::max<int64_t>(c.columns(), 1), kLeastWindows);
  c.block_columns = std::clamp<int64_t>(c.plane.w.windows, 1, windows);
  const bool is_whole = c.block_columns >= c.plane.w.windows;
  const int64_t rows = kBlockElems / std::max<int64_t>(c.columns() * c.block_columns, 1);
  c.block_rows = is_whole ? std::clamp<int64_t>(rows, 1, std::max<int64_t>(c.plane.h.windows, 1)) : 1;
}

// Parts so that there are enough units for several threads: of the blocks of a sample and group, of the channels for
// the gradient of x, of the blocks of all samples for that of the weights.
int64_t conv_parts(const Convolution& c, Op op) {
  const int64_t samples = op == Op::kConvGradW ? 1 : c.batch;
  const int64_t wanted = ceil_div(kLeastConvUnits, std::max<int64_t>(samples * c.groups, 1));
  int64_t most = op == Op::kConvGradX ? c.in : c.blocks();
  if (op == Op::kConvGradW)
    most = std::min(c.batch * c.blocks(), kMostConvSums / std::max<int64_t>(c.groups * c.w_elems(), 1));
  return std::clamp(wanted, int64_t{1}, std::max<int64_t>(most, 1));
}

template <class T>
size_t conv_scratch_bytes(const Convolution& c, Op op) {
  const size_t sums = op == Op::kConvGradW ? static_cast<size_t>(c.units * c.w_elems()) * sizeof(T) : 0;
  return static_cast<size_t>(c.chunks) * ConvScratch<T>(c, nullptr).bytes + sums;
}

Convolution convolution_of(Op op, const ConvShape& shape) {
  constexpr double kFlopsPerNs = 60;
  Convolution c{shape};
  cut_into_blocks(c);
  c.parts = conv_parts(c, op);
  c.units = (op == Op::kConvGradW ? c.groups : c.batch * c.groups) * c.parts;
  const double slow = c.dtype == DType::kF64 ? 4 : 1;
  c.chunks = chunk_count(slow * 2 * c.products() / kFlopsPerNs, c.units);
  return c;
}

template <class T>
Kernel prepare(Op op, const Convolution& c) {
  std::string name = fmt::format("{}.{}", name_of(op), name_of(c.dtype));
  const size_t scratch = conv_scratch_bytes<T>(c, op);
  if (op == Op::kConv) return make_kernel<run_conv<T>>(std::move(name), c, scratch);
  if (op == Op::kConvGradX) return make_kernel<run_conv_grad_x<T>>(std::move(name), c, scratch);
  return make_kernel<run_conv_grad_w<T>>(std::move(name), c, scratch);
}

}  // namespace

Kernel prepare_conv_columns(Op op, const ConvShape& shape) {
  const Convolution c = convolution_of(op, shape);
  return c.dtype == DType::kF64 ? prepare<double>(op, c) : prepare<float>(op, c);
}

}  // namespace runner::backends
