// Layout of tensors in a TPU's memory: dtype on the device, order of axes, tiles, and size with padding.
//
// The two most minor axes are tiled by 8 × 128 elements, with fewer rows if the tensor has fewer. A tensor takes whole
// tiles, so a last axis of 4 takes 32 times its bytes. A 64-bit type is stored as two arrays of 32 bits.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "backends/tensor/shape.h"

namespace runner::backends::tpu {

// Device types of a Program's floats. Programs keep their logical types.
struct DeviceTypes {
  DType f32 = DType::kF32;
  DType f64 = DType::kF64;

  constexpr DType of(DType dtype) const {
    if (dtype == DType::kF32) return f32;
    return dtype == DType::kF64 ? f64 : dtype;
  }
  TensorType of(const TensorType& type) const { return {of(type.dtype), type.shape}; }
};
inline constexpr DeviceTypes kFullTypes{};                                   // mixed_precision: no
inline constexpr DeviceTypes kBf16Types{DType::kBf16, DType::kBf16};         // bf16 (XLA_USE_BF16)
inline constexpr DeviceTypes kDowncastBf16Types{DType::kBf16, DType::kF32};  // with downcast_bf16 (XLA_DOWNCAST_BF16)

struct Layout {
  std::array<int8_t, Shape::kMaxRank> minor_to_major{};  // most minor axis first
  int64_t tile_rows = 1;                                 // 1 for tensors of rank 0 and 1
  int64_t tile_columns = 128;
  int64_t bytes = 0;  // including padding
};

// Layouts take the type on the device.
Layout row_major_layout(const TensorType& type);
// Sorts axes by size, the largest most minor, equal ones as in row-major order.
Layout largest_minor_layout(const TensorType& type);
// Returns the smaller of the two layouts; row-major if they are equal.
Layout tightest_layout(const TensorType& type);
// Layout that PyTorch/XLA gives a graph argument: row-major unless padding to 8 × 128 costs 25% or more.
Layout argument_layout(const TensorType& type);

// Padded size divided by unpadded size; 1 for a tensor without elements.
double expansion(const TensorType& type, const Layout& layout);

// Example: "bf16[6291456,4]".
std::string hlo_text(const TensorType& type);
// Example: "{1,0:T(8,128)(2,1)}".
std::string hlo_text(const TensorType& type, const Layout& layout);

}  // namespace runner::backends::tpu
