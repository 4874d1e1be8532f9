// Convolution with windows of 3 × 3 by minimal filtering, F(2 × 2, 3 × 3): 16 multiplications instead of 36 for the
// 2 × 2 windows of a tile (Lavin and Gray 2015; decision 107).
//
// A tile of y is Aᵀ [(G w Gᵀ) ⊙ (Bᵀ x B)] A, summed over channels, where the 4 × 4 elements of x overlap those of the
// next tiles. So y takes 16 products of matrices, one for each point of the grid: (channels of y, channels of x) times
// (channels of x, tiles). The gradient of x is the convolution of the gradient of y with weights that are turned round.
// That of the weights is Gᵀ [(A dy Aᵀ) ⊙ (Bᵀ x B)] G, summed over tiles: a unit of work is a part of the tiles, or a
// row of the grid over a part. The sums of the parts are added in order, so the bits do not depend on threads.

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "backends/kernels/convolution.h"
#include "backends/kernels/rows_io.h"

namespace runner::backends {

namespace {

constexpr int64_t kGrid = 4, kPoints = kGrid * kGrid;         // of a transformed tile
constexpr int64_t kWindow = 3, kWeights = kWindow * kWindow;  // of a window
constexpr int64_t kMostLanes = 16;                            // of a vector
constexpr int64_t kPartTiles = 64;                            // of a part, at least
constexpr int64_t kTile = 2;                                  // windows of a tile along each axis

struct Sizes {
  int64_t h, w;

  int64_t size() const { return h * w; }
};

// y = conv(x, w) with a window of 3 × 3, where x may be a gradient of y, and y one of x.
struct Winograd {
  DType dtype, result;
  int64_t batch, in, out;  // channels of x and of y
  Sizes x, y, before;      // planes, and the padding before x
  bool turned;             // w is (in, out, 3, 3), and its windows are turned round

  const WinogradLoops* transform = &loops().winograd;
  int64_t lanes = 0;   // tiles that are computed at once
  int64_t parts = 1;   // of all tiles
  int64_t groups = 1;  // of rows of the grid, for the gradient of the weights
  int64_t chunks = 1, weight_chunks = 1;

  Sizes tiles() const { return {ceil_div(y.h, kTile), ceil_div(y.w, kTile)}; }  // of a plane
  int64_t stride() const { return lanes + kMostLanes; }                         // of lanes
  int64_t all_tiles() const { return batch * tiles().size(); }
  // Floats between the points of a grid. They are not a multiple of a page apart, because those share a place in the
  // cache.
  int64_t x_point() const { return in * stride() + kMostLanes; }
  int64_t y_point() const { return out * stride() + kMostLanes; }
  int64_t w_point() const { return in * out + kMostLanes; }
};

// ---- tiles ---------------------------------------------------------------------------------------------------------

// Some tiles of a row of tiles, in lanes from `lane` on.
struct TileRun {
  int64_t lane, count;
  int64_t sample, row, column;  // of the first window
};

// Calls body(run) for tiles [first, first + n) of all samples.
template <class Body>
void for_tile_runs(const Winograd& c, int64_t first, int64_t n, const Body& body) {
  const Sizes tiles = c.tiles();
  for (int64_t lane = 0; lane < n;) {
    const int64_t tile = first + lane, in_plane = tile % tiles.size(), column = in_plane % tiles.w;
    const int64_t count = std::min(tiles.w - column, n - lane);
    body(TileRun{lane, count, tile / tiles.size(), in_plane / tiles.w * kTile, column * kTile});
    lane += count;
  }
}

// A tensor (batch, channels, h, w) of storage in `dtype`.
struct Planes {
  std::byte* data;
  DType dtype;
  int64_t channels;
  Sizes size;

  int64_t row(int64_t sample, int64_t channel, int64_t row) const {
    return ((sample * channels + channel) * size.h + row) * size.w;
  }
};

// Rows of one channel around runs of tiles, padded with zeros: the even and the odd elements of a row are `stride`
// floats apart. Rows that the next run has too are kept.
class SplitRows {
 public:
  SplitRows(const Winograd& c, const Planes& planes, int64_t channel, Sizes before, float* rows, float* converted)
      : transform_(*c.transform),
        planes_(planes),
        channel_(channel),
        before_(before),
        stride_(stride(c)),
        rows_(rows),
        converted_(converted) {}

  static int64_t most_tiles(const Winograd& c) { return std::min(c.tiles().w, c.lanes); }  // of a run
  static int64_t stride(const Winograd& c) { return round_up(most_tiles(c) + 1, kMostLanes) + kMostLanes; }
  static int64_t most_elems(const Winograd& c) {
    const int64_t tile_rows = std::min(c.tiles().h, c.lanes / most_tiles(c) + 1) + 1;
    return tile_rows * kTile * kTile * stride(c);
  }

  // `rows` rows, from the first element of the first tile of a run on. Runs come in order.
  const float* of(const TileRun& run, int64_t rows) {
    if (run.sample != last_.sample || run.column != last_.column || run.count != last_.count) {
      last_ = run;
      ready_ = run.row;
    }
    for (; ready_ < run.row + rows; ++ready_) split(ready_);
    return at(run.row);
  }

 private:
  float* at(int64_t row) const { return rows_ + (row - last_.row) * kTile * stride_; }

  void split(int64_t padded_row) {
    float* const even = at(padded_row);
    const int64_t row = padded_row - before_.h, n = last_.count + 1;
    const int64_t first = last_.column - before_.w;
    const int64_t begin = std::clamp<int64_t>(first, 0, planes_.size.w);
    const int64_t size = std::clamp<int64_t>(first + kTile * n, begin, planes_.size.w) - begin;
    if (row < 0 || row >= planes_.size.h) return transform_.split(even, even + stride_, nullptr, 0, 0, n);
    const float* const elements =
        read_elements(planes_.data, planes_.dtype, planes_.row(last_.sample, channel_, row) + begin, size, converted_);
    transform_.split(even, even + stride_, elements, size, begin - first, n);
  }

  const WinogradLoops& transform_;
  const Planes& planes_;
  int64_t channel_;
  Sizes before_;
  int64_t stride_;
  float *rows_, *converted_;
  TileRun last_{0, 0, -1, 0, 0};  // the first of those that share rows
  int64_t ready_ = 0;
};

// Stores the windows of tiles [first, first + n) of one channel from grids (2, 2, lanes), `stride` floats apart.
void store_windows(const Winograd& c, const Planes& y, int64_t channel, int64_t first, int64_t n, const float* grids,
                   int64_t stride, float* room) {
  for_tile_runs(c, first, n, [&](const TileRun& run) {
    const int64_t windows = std::min(kTile * run.count, c.y.w - run.column);
    for (int64_t i = 0; i < std::min(kTile, c.y.h - run.row); ++i) {
      const int64_t at = y.row(run.sample, channel, run.row + i) + run.column;
      const float* const even = grids + i * kTile * stride + run.lane;
      float* const to = place_of_elements(y.data, y.dtype, at, room);
      c.transform->join(to, even, even + stride, windows / kTile);
      if (windows % kTile > 0) to[windows - 1] = even[windows / kTile];
      if (!is_native(y.dtype)) store_elements(y.data, y.dtype, at, to, windows);
    }
  });
}

// ---- weights -------------------------------------------------------------------------------------------------------

// Windows of all channels of x and some channels of y, kWeightOuts at most: the elements of a window are planes
// (outs, 9, in), `in_stride` floats apart.
constexpr int64_t kWeightOuts = 8;
int64_t in_stride(const Winograd& c) {
  return c.in + kMostLanes;
}
int64_t weight_room(const Winograd& c) {
  return kWeightOuts * kWeights * in_stride(c) + std::max(c.in, kWeightOuts) * kWeights;
}

// Calls body(first, windows, out, in) for runs of windows that are contiguous in w: `first` is the position of the
// first. They are those of all channels of x and one of y, or the reverse.
template <class Body>
void for_window_runs(const Winograd& c, IndexRange<int64_t> outs, const Body& body) {
  if (c.turned)
    for (int64_t in = 0; in < c.in; ++in) body((in * c.out + outs.begin) * kWeights, outs.size(), 0, in);
  else
    for (int64_t out = outs.begin; out < outs.end; ++out) body(out * c.in * kWeights, c.in, out - outs.begin, 0);
}

// points (16, out, in) = the transformed weights of channels `outs` of y.
void transform_weights(const Winograd& c, const std::byte* w, IndexRange<int64_t> outs, float* points, float* room) {
  const int64_t stride = in_stride(c);
  float* const converted = room + kWeightOuts * kWeights * stride;
  for_window_runs(c, outs, [&](int64_t first, int64_t windows, int64_t out, int64_t in) {
    const float* window = read_elements(w, c.dtype, first, windows * kWeights, converted);
    float* planes = room + out * kWeights * stride + in;
    for (int64_t i = 0; i < windows; ++i, window += kWeights, planes += c.turned ? kWeights * stride : 1)
      for (int64_t k = 0; k < kWeights; ++k) planes[k * stride] = window[c.turned ? kWeights - 1 - k : k];
  });
  for (int64_t out = outs.begin; out < outs.end; ++out, room += kWeights * stride)
    c.transform->weights(points + out * c.in, c.w_point(), room, stride, c.in);
}

// ---- y, or the gradient of x ---------------------------------------------------------------------------------------

// Scratch of a chunk. Transforms write whole vectors, so there is room after the lanes, and after the last grid.
struct WinogradScratch {
  float *x, *y;             // transformed: (points, in, lanes), (points, out, lanes)
  float* grids;             // of one channel
  float *rows, *converted;  // SplitRows
  float* panels;            // for products
  size_t bytes;

  WinogradScratch(const Winograd& c, int64_t points, int64_t panel_elems, std::byte* start) {
    ScratchRoom room(start);
    x = room.take<float>(points * c.x_point());
    y = room.take<float>(points * c.y_point());
    grids = room.take<float>(kTile * kTile * c.stride());
    rows = room.take<float>(SplitRows::most_elems(c));
    converted = room.take<float>(kTile * SplitRows::stride(c));
    panels = room.take<float>(panel_elems);
    bytes = room.size();
  }
};

WinogradScratch scratch_of_windows(const Winograd& c, std::byte* start) {
  return {c, kPoints, 0, start};
}

size_t bytes_of_weights(const Winograd& c) {
  return aligned(static_cast<size_t>(kPoints * c.w_point()) * sizeof(float));
}

// to (points, channels, lanes), `point` floats apart = `map` of tiles [first, first + n) of each channel, which have
// `grid_rows` rows.
void transform_tiles(const Winograd& c, const Planes& planes, Sizes before, int64_t grid_rows, WinogradLoops::Map map,
                     int64_t first, int64_t n, float* to, int64_t point, const WinogradScratch& scratch) {
  for (int64_t channel = 0; channel < planes.channels; ++channel) {
    SplitRows rows(c, planes, channel, before, scratch.rows, scratch.converted);
    for_tile_runs(c, first, n, [&](const TileRun& run) {
      map(to + channel * c.stride() + run.lane, point, rows.of(run, grid_rows), SplitRows::stride(c), run.count);
    });
  }
}

// The windows of tiles [first, first + n).
void compute_windows(const Winograd& c, const Planes& x, const Planes& y, const float* weights, int64_t first,
                     int64_t n, const WinogradScratch& scratch) {
  const int64_t stride = c.stride();
  transform_tiles(c, x, c.before, kGrid, c.transform->input, first, n, scratch.x, c.x_point(), scratch);
  for (int64_t point = 0; point < kPoints; ++point)
    loops().matmul.of<float>().multiply({.c = scratch.y + point * c.y_point(),
                                         .a = weights + point * c.w_point(),
                                         .b = scratch.x + point * c.x_point(),
                                         .panels = nullptr,
                                         .c_stride = stride,
                                         .a_row_stride = c.in,
                                         .a_k_stride = 1,
                                         .b_k_stride = stride,
                                         .b_col_stride = 1,
                                         .rows = c.out,
                                         .cols = round_up(n, kMostLanes),
                                         .inner = c.in,
                                         .in_place = true});
  for (int64_t out = 0; out < c.out; ++out) {
    c.transform->output(scratch.grids, stride, scratch.y + out * stride, c.y_point(), n);
    store_windows(c, y, out, first, n, scratch.grids, stride, scratch.converted);
  }
}

void run_windows(const Winograd& c, const KernelArguments& arguments) {
  auto* const weights = reinterpret_cast<float*>(arguments.scratch);
  std::byte* const rest = arguments.scratch + bytes_of_weights(c);
  arguments.pool.parallel_for(c.weight_chunks, [&](int64_t chunk) {
    const IndexRange<int64_t> outs = part_of(c.out, chunk, c.weight_chunks, kWeightOuts);
    float* const room = reinterpret_cast<float*>(rest) + chunk * weight_room(c);
    for (int64_t out = outs.begin; out < outs.end; out += kWeightOuts)
      transform_weights(c, arguments.operands[1], {out, std::min(out + kWeightOuts, outs.end)}, weights, room);
  });
  const Planes x{arguments.operands[0], c.dtype, c.in, c.x}, y{arguments.results[0], c.result, c.out, c.y};
  const size_t bytes = scratch_of_windows(c, nullptr).bytes;
  arguments.pool.parallel_for(c.chunks, [&](int64_t chunk) {
    const WinogradScratch scratch = scratch_of_windows(c, rest + static_cast<size_t>(chunk) * bytes);
    const IndexRange<int64_t> tiles = part_of(c.all_tiles(), chunk, c.chunks, c.lanes);
    for (int64_t first = tiles.begin; first < tiles.end; first += c.lanes)
      compute_windows(c, x, y, weights, first, std::min(c.lanes, tiles.end - first), scratch);
  });
}

// ---- the gradient of the weights -----------------------------------------------------------------------------------

WinogradScratch scratch_of_sums(const Winograd& c, std::byte* start) {
  return {c, kPoints / c.groups, loops().matmul.of<float>().panel_elems(c.in, c.lanes), start};
}

// sums (points, out, in) += the points of a group of rows of the grid, over tiles [first, first + n).
void add_tiles(const Winograd& c, const Planes& x, const Planes& y, int64_t group, int64_t first, int64_t n,
               float* sums, const WinogradScratch& scratch) {
  const auto at = static_cast<size_t>(group);
  const auto input = c.groups == 1 ? c.transform->input : c.transform->input_rows[at];
  const auto output_grad = c.groups == 1 ? c.transform->output_grad : c.transform->output_grad_rows[at];
  const int64_t stride = c.stride();
  transform_tiles(c, x, c.before, kGrid, input, first, n, scratch.x, c.x_point(), scratch);
  transform_tiles(c, y, {0, 0}, kTile, output_grad, first, n, scratch.y, c.y_point(), scratch);
  for (int64_t point = 0; point < kPoints / c.groups; ++point)
    multiply_views<float>({sums + point * c.w_point(), c.in}, {scratch.y + point * c.y_point(), stride},
                          {scratch.x + point * c.x_point(), 1, stride}, c.out, c.in, n, scratch.panels, true);
}

// The gradient of the weights of one channel of y, from sums (16, out, in).
void store_weights(const Winograd& c, const float* sums, int64_t out, std::byte* w, float* room) {
  const int64_t stride = in_stride(c), first = out * c.in * kWeights;
  c.transform->weights_grad(room, stride, sums + out * c.in, c.w_point(), c.in);
  float* const windows = place_of_elements(w, c.result, first, room + kWeightOuts * kWeights * stride);
  for (int64_t in = 0; in < c.in; ++in)
    for (int64_t k = 0; k < kWeights; ++k) windows[in * kWeights + k] = room[k * stride + in];
  if (!is_native(c.result)) store_elements(w, c.result, first, windows, c.in * kWeights);
}

void run_sums(const Winograd& c, const KernelArguments& arguments) {
  auto* const sums = reinterpret_cast<float*>(arguments.scratch);
  std::byte* const rest = arguments.scratch + static_cast<size_t>(c.parts) * bytes_of_weights(c);
  const Planes x{arguments.operands[0], c.dtype, c.in, c.x}, y{arguments.operands[1], c.dtype, c.out, c.y};
  const int64_t part_elems = static_cast<int64_t>(bytes_of_weights(c) / sizeof(float));
  const int64_t group_elems = kPoints * c.w_point() / c.groups;
  const size_t bytes = scratch_of_sums(c, nullptr).bytes;
  arguments.pool.parallel_for(c.chunks, [&](int64_t chunk) {
    const WinogradScratch scratch = scratch_of_sums(c, rest + static_cast<size_t>(chunk) * bytes);
    const IndexRange<int64_t> units = part_of(c.parts * c.groups, chunk, c.chunks);
    for (int64_t unit = units.begin; unit < units.end; ++unit) {
      const int64_t group = unit % c.groups, part = unit / c.groups;
      const IndexRange<int64_t> tiles = part_of(c.all_tiles(), part, c.parts);
      float* const target = sums + part * part_elems + group * group_elems;
      std::fill_n(target, group_elems, 0.f);
      for (int64_t first = tiles.begin; first < tiles.end; first += c.lanes)
        add_tiles(c, x, y, group, first, std::min(c.lanes, tiles.end - first), target, scratch);
    }
  });
  add_parts(arguments.pool, sums, c.parts, part_elems, kPoints * c.w_point(), [](int64_t, int64_t) {});
  arguments.pool.parallel_for(c.weight_chunks, [&](int64_t chunk) {
    float* const room = reinterpret_cast<float*>(rest) + chunk * weight_room(c);
    const IndexRange<int64_t> outs = part_of(c.out, chunk, c.weight_chunks);
    for (int64_t out = outs.begin; out < outs.end; ++out) store_weights(c, sums, out, arguments.results[0], room);
  });
}

// ---- preparing -----------------------------------------------------------------------------------------------------

Winograd winograd_of(Op op, const ConvShape& s) {
  const PlaneAxis &h = s.plane.h, &w = s.plane.w;
  Winograd c{.dtype = s.dtype,
             .result = s.result,
             .batch = s.batch,
             .in = s.in,
             .out = s.out,
             .x = {h.size, w.size},
             .y = {h.windows, w.windows},
             .before = {h.window.before, w.window.before},
             .turned = op == Op::kConvGradX};
  if (op != Op::kConvGradX) return c;
  std::swap(c.in, c.out);
  std::swap(c.x, c.y);
  c.before = {kWindow - 1 - c.before.h, kWindow - 1 - c.before.w};
  return c;
}

// Tiles that are computed at once, of `tiles`: `most` of them keep their grids in the cache.
int64_t lanes_for(int64_t tiles, int64_t most) {
  return std::clamp(round_up(tiles, kMostLanes), kMostLanes, most);
}

}  // namespace

// Whether it is the fastest (bench/conv_bench.cpp): enough channels to pay for the transforms of tiles, and enough
// tiles to pay for those of weights, and of sums for each part.
bool suits_winograd(Op op, const ConvShape& s) {
  constexpr int64_t kLeastChannels = 32;
  const int64_t least_tiles = (op == Op::kConvGradW ? 4 : 2) * kPartTiles;
  const auto has_three = [](const PlaneAxis& axis) {
    return axis.window.size == kWindow && axis.window.stride == 1 && axis.window.dilation == 1;
  };
  return s.groups == 1 && compute_of(s.dtype) == Compute::kF32 && has_three(s.plane.h) && has_three(s.plane.w) &&
         std::min(s.in, s.out) >= kLeastChannels && winograd_of(op, s).all_tiles() >= least_tiles;
}

Kernel prepare_conv_winograd(Op op, const ConvShape& shape) {
  constexpr double kFlopsPerNs = 100, kWeightsNs = 5;
  constexpr int64_t kWindowLanes = 64, kSumLanes = 128, kLeastBlocks = 4;
  Winograd c = winograd_of(op, shape);
  const std::string name = fmt::format("{}.winograd.{}", name_of(op), name_of(c.dtype));
  const double work_ns = 2 * shape.products() / kFlopsPerNs;
  c.weight_chunks = chunk_count(static_cast<double>(c.in * c.out) * kWeightsNs, ceil_div(c.out, kWeightOuts));
  const size_t room_bytes = static_cast<size_t>(c.weight_chunks * weight_room(c)) * sizeof(float);
  const auto scratch_bytes = [&](size_t weights, const WinogradScratch& scratch) {
    return weights * bytes_of_weights(c) + std::max(room_bytes, static_cast<size_t>(c.chunks) * scratch.bytes);
  };
  if (op == Op::kConvGradW) {
    const int64_t most = std::min(2 * kMostConvSums / (kPoints * c.in * c.out), kLeastConvUnits);
    c.parts = std::clamp<int64_t>(c.all_tiles() / kPartTiles, 1, std::max<int64_t>(most, 1));
    c.groups = c.parts < kLeastConvUnits ? kGrid : 1;
    c.lanes = lanes_for(ceil_div(c.all_tiles(), c.parts), kSumLanes);
    c.chunks = chunk_count(work_ns, c.parts * c.groups);
    return make_kernel<run_sums>(name, c, scratch_bytes(static_cast<size_t>(c.parts), scratch_of_sums(c, nullptr)));
  }
  c.lanes = lanes_for(c.all_tiles() / kLeastBlocks, kWindowLanes);
  c.chunks = std::min(chunk_count(work_ns, ceil_div(c.all_tiles(), c.lanes)), 2 * kLeastConvUnits);
  return make_kernel<run_windows>(name, c, scratch_bytes(1, scratch_of_windows(c, nullptr)));
}

}  // namespace runner::backends
