// Padded sizes, against a count of the tiles that a tensor's elements occupy, and against sizes printed by XLA.
#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "backends/tensor/byte_units.h"
#include "backends/tpu/tiling.h"

namespace runner::backends::tpu {
namespace {

// Finds the tile of every element.
int64_t bytes_of_touched_tiles(const TensorType& type, const Layout& layout) {
  const int rank = type.shape.rank();
  const auto strides = type.shape.strides();
  std::set<std::vector<int64_t>> tiles;
  for (int64_t element = 0; element < type.shape.elements(); ++element) {
    std::vector<int64_t> tile;
    for (int place = 0; place < rank; ++place) {
      const int axis{layout.minor_to_major[static_cast<size_t>(place)]};
      const int64_t index = element / strides[static_cast<size_t>(axis)] % type.shape[axis];
      tile.push_back(place == 0 ? index / layout.tile_columns : place == 1 ? index / layout.tile_rows : index);
    }
    tiles.insert(tile);
  }
  const int64_t elements_of_tile = layout.tile_rows * layout.tile_columns;
  return static_cast<int64_t>(tiles.size()) * elements_of_tile * static_cast<int64_t>(size_of(type.dtype));
}

TEST(TpuTiling, CountsTheTilesThatElementsOccupy) {
  std::mt19937 random(7);
  constexpr DType kTypes[] = {DType::kF32, DType::kF64, DType::kBf16, DType::kI32, DType::kI64, DType::kBool};
  for (int i = 0; i < 400; ++i) {
    std::vector<int64_t> dims(random() % 5);
    for (int64_t& dim : dims) dim = random() % 3 == 0 ? 1 + random() % 300 : 1 + random() % 9;
    const TensorType type{kTypes[random() % std::size(kTypes)], Shape(dims)};
    if (type.shape.elements() > 40000) continue;
    for (const Layout& layout : {row_major_layout(type), largest_minor_layout(type), argument_layout(type)})
      EXPECT_EQ(layout.bytes, bytes_of_touched_tiles(type, layout)) << hlo_text(type) << hlo_text(type, layout);
    EXPECT_EQ(tightest_layout(type).bytes, std::min(row_major_layout(type).bytes, largest_minor_layout(type).bytes));
  }
}

struct Printed {
  TensorType type;
  const char* text;
  int64_t bytes;
};

TEST(TpuTiling, RowMajorMatchesXlaMessages) {
  const Printed rows[] = {
      // 48.00M unpadded and 1.50G padded, 32.0x; 1 GB that became 32 GB.
      {{DType::kBf16, Shape{6291456, 4}}, "bf16[6291456,4]{1,0:T(8,128)(2,1)}", 1536 * kMiB},
      {{DType::kI32, Shape{8388608, 8, 4}}, "s32[8388608,8,4]{2,1,0:T(8,128)}", 32768 * kMiB},
      // Size: 124.00M, Unpadded size: 122.50M.
      {{DType::kF32, Shape{512, 245, 256}}, "f32[512,245,256]{2,1,0:T(8,128)}", 124 * kMiB},
      {{DType::kBf16, Shape{512, 16, 3072}}, "bf16[512,16,3072]{2,1,0:T(8,128)(2,1)}", 48 * kMiB},
      // Few rows use smaller tiles: 4 × 128 of f32, 2 × 128 of bf16.
      {{DType::kF32, Shape{3, 130}}, "f32[3,130]{1,0:T(4,128)}", 4 * 256 * 4},
      {{DType::kBf16, Shape{1, 7}}, "bf16[1,7]{1,0:T(2,128)(2,1)}", 2 * 128 * 2},
      {{DType::kBool, Shape{2, 8}}, "pred[2,8]{1,0:T(4,128)(4,1)}", 4 * 128},
      {{DType::kF32, Shape{20, 3}}, "f32[20,3]{1,0:T(8,128)}", 24 * 128 * 4},
      // Vectors: tiles of 128 to 1024 elements; narrow types have at least a full lane row.
      {{DType::kI32, Shape{16}}, "s32[16]{0:T(128)}", 128 * 4},
      {{DType::kF32, Shape{200}}, "f32[200]{0:T(256)}", 256 * 4},
      {{DType::kI32, Shape{2048}}, "s32[2048]{0:T(1024)}", 2048 * 4},
      {{DType::kF32, Shape{1025}}, "f32[1025]{0:T(1024)}", 2048 * 4},
      {{DType::kBf16, Shape{6144}}, "bf16[6144]{0:T(1024)(128)(2,1)}", 6144 * 2},
      {{DType::kBf16, Shape{128}}, "bf16[128]{0:T(256)(128)(2,1)}", 256 * 2},
      {{DType::kBool, Shape{1}}, "pred[1]{0:T(512)(128)(4,1)}", 512},
      // Scalars take a tile, 64-bit types two arrays of 32 bits, empty tensors nothing.
      {{DType::kF32, Shape{}}, "f32[]{:T(128)}", 512},
      {{DType::kI64, Shape{}}, "s64[]{:T(128)}", 1024},
      {{DType::kI64, Shape{64, 784}}, "s64[64,784]{1,0:T(8,128)}", 64 * 896 * 8},
      {{DType::kF32, Shape{0, 5}}, "f32[0,5]{1,0:T(2,128)}", 0},
  };
  for (const Printed& row : rows) {
    const Layout layout = row_major_layout(row.type);
    EXPECT_EQ(hlo_text(row.type) + hlo_text(row.type, layout), row.text);
    EXPECT_EQ(layout.bytes, row.bytes) << row.text;
  }
}

// (6291456, 4) with its long axis most minor: 4 rows of full tiles, no padding.
TEST(TpuTiling, LargestAxisMostMinor) {
  const TensorType narrow{DType::kBf16, Shape{6291456, 4}};
  EXPECT_EQ(hlo_text(narrow, tightest_layout(narrow)), "{0,1:T(4,128)(2,1)}");
  EXPECT_EQ(tightest_layout(narrow).bytes, 48 * kMiB);
  EXPECT_DOUBLE_EQ(expansion(narrow, row_major_layout(narrow)), 32);
  EXPECT_DOUBLE_EQ(expansion(narrow, tightest_layout(narrow)), 1);
  // Of equal axes the later one is more minor, as in row-major order.
  const TensorType square{DType::kF32, Shape{3, 64, 64}};
  EXPECT_EQ(hlo_text(square, largest_minor_layout(square)), "{2,1,0:T(8,128)}");
  EXPECT_DOUBLE_EQ(expansion({DType::kF32, Shape{0, 5}}, Layout{}), 1);
}

// An argument keeps its order if padding is below 25%: 896 · 1024 / (784 · 1024) = 1.14; 128 · 16 / (100 · 10) = 2.05.
TEST(TpuTiling, ArgumentsAreReorderedIfPaddingIsLarge) {
  const TensorType wide{DType::kF32, Shape{1024, 784}}, narrow{DType::kF32, Shape{100, 10}};
  EXPECT_EQ(hlo_text(wide, argument_layout(wide)), "{1,0:T(8,128)}");
  EXPECT_EQ(hlo_text(narrow, argument_layout(narrow)), "{0,1:T(8,128)}");
  EXPECT_EQ(argument_layout(narrow).bytes, 128 * 16 * 4);
  // 128 · 8 / (103 · 8) = 1.243, 128 · 8 / (102 · 8) = 1.255.
  const TensorType just{DType::kF32, Shape{500, 8, 103}}, over{DType::kF32, Shape{500, 8, 102}};
  EXPECT_EQ(hlo_text(just, argument_layout(just)), "{2,1,0:T(8,128)}");
  EXPECT_EQ(hlo_text(over, argument_layout(over)), "{0,2,1:T(8,128)}");
}

TEST(TpuTiling, DeviceTypes) {
  EXPECT_EQ(kFullTypes.of(DType::kF64), DType::kF64);
  EXPECT_EQ(kBf16Types.of(DType::kF32), DType::kBf16);
  EXPECT_EQ(kBf16Types.of(DType::kF64), DType::kBf16);
  EXPECT_EQ(kDowncastBf16Types.of(DType::kF32), DType::kBf16);
  EXPECT_EQ(kDowncastBf16Types.of(DType::kF64), DType::kF32);
  EXPECT_EQ(kBf16Types.of(DType::kI64), DType::kI64);
  EXPECT_EQ(kBf16Types.of(TensorType{DType::kF32, Shape{2}}), (TensorType{DType::kBf16, Shape{2}}));
}

}  // namespace
}  // namespace runner::backends::tpu
