#include "backends/tpu/tiling.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/tensor/rounding.h"

namespace runner::backends::tpu {
namespace {

constexpr int64_t kTileColumns = 128, kTileRows = 8;
// Vector tiles have at most this many elements; shorter vectors get the smallest tile that holds them.
constexpr int64_t kMaxVectorTile = 1024;
// XLA_MAX_PADDING_FACTOR.
constexpr double kMaxPadding = 1.25;

// Bytes per element of one array; a 64-bit type has two arrays.
int64_t lane_bytes(DType dtype) {
  return static_cast<int64_t>(std::min(size_of(dtype), size_t{4}));
}
int64_t arrays_of(DType dtype) {
  return static_cast<int64_t>(size_of(dtype)) / lane_bytes(dtype);
}
// Elements packed into the 32 bits of a lane.
int64_t packing(DType dtype) {
  return 4 / lane_bytes(dtype);
}

int64_t vector_tile(DType dtype, int64_t elements) {
  int64_t tile = kTileColumns * packing(dtype);
  while (tile < elements && tile < kMaxVectorTile) tile *= 2;
  return tile;
}

int64_t matrix_rows(DType dtype, int64_t rows) {
  int64_t tile = std::max<int64_t>(2, packing(dtype));
  while (tile < rows && tile < kTileRows) tile *= 2;
  return tile;
}

Layout tiled(const TensorType& type, const std::array<int8_t, Shape::kMaxRank>& order) {
  const Shape& shape = type.shape;
  Layout layout{.minor_to_major = order};
  int64_t elements = shape.elements();
  if (shape.rank() < 2) {
    layout.tile_columns = vector_tile(type.dtype, elements);
    elements = round_up(elements, layout.tile_columns);
  } else {
    const int64_t columns = shape[order[0]], rows = shape[order[1]];
    layout.tile_rows = matrix_rows(type.dtype, rows);
    if (elements > 0)
      elements = elements / columns / rows * round_up(columns, kTileColumns) * round_up(rows, layout.tile_rows);
  }
  layout.bytes = elements * lane_bytes(type.dtype) * arrays_of(type.dtype);
  return layout;
}

std::array<int8_t, Shape::kMaxRank> row_major_order(int rank) {
  std::array<int8_t, Shape::kMaxRank> order{};
  std::iota(order.begin(), order.begin() + rank, int8_t{0});
  std::reverse(order.begin(), order.begin() + rank);
  return order;
}

std::string_view hlo_name(DType dtype) {
  switch (dtype) {
    case DType::kI32: return "s32";
    case DType::kI64: return "s64";
    case DType::kBool: return "pred";
    default: return name_of(dtype);
  }
}

}  // namespace

Layout row_major_layout(const TensorType& type) {
  return tiled(type, row_major_order(type.shape.rank()));
}

Layout largest_minor_layout(const TensorType& type) {
  auto order = row_major_order(type.shape.rank());
  std::stable_sort(order.begin(), order.begin() + type.shape.rank(),
                   [&](int8_t a, int8_t b) { return type.shape[a] > type.shape[b]; });
  return tiled(type, order);
}

Layout tightest_layout(const TensorType& type) {
  const Layout by_rows = row_major_layout(type), by_size = largest_minor_layout(type);
  return by_size.bytes < by_rows.bytes ? by_size : by_rows;
}

Layout argument_layout(const TensorType& type) {
  const Shape& shape = type.shape;
  if (shape.rank() < 2 || shape.elements() == 0) return row_major_layout(type);
  const int64_t columns = shape.back(), rows = shape[shape.rank() - 2];
  const double padding = static_cast<double>(round_up(columns, kTileColumns) * round_up(rows, kTileRows)) /
                         static_cast<double>(columns * rows);
  return padding < kMaxPadding ? row_major_layout(type) : largest_minor_layout(type);
}

double expansion(const TensorType& type, const Layout& layout) {
  return type.bytes() == 0 ? 1 : static_cast<double>(layout.bytes) / static_cast<double>(type.bytes());
}

std::string hlo_text(const TensorType& type) {
  return fmt::format("{}[{}]", hlo_name(type.dtype), fmt::join(type.shape.dims(), ","));
}

std::string hlo_text(const TensorType& type, const Layout& layout) {
  const auto axes = std::span(layout.minor_to_major).first(static_cast<size_t>(type.shape.rank()));
  const int64_t packed = packing(type.dtype);
  std::string tiles = type.shape.rank() < 2 ? fmt::format("T({})", layout.tile_columns)
                                            : fmt::format("T({},{})", layout.tile_rows, layout.tile_columns);
  if (packed > 1) tiles += fmt::format("{}({},1)", type.shape.rank() < 2 ? "(128)" : "", packed);
  return fmt::format("{{{}:{}}}", fmt::join(axes, ","), tiles);
}

}  // namespace runner::backends::tpu
