// Convolutions: one file per implementation; convolution.cpp chooses.
#pragma once

#include <optional>

#include "backends/kernels/kernel.h"
#include "backends/kernels/plane.h"

namespace runner::backends {

// The sizes of y = conv(x, w), and the dtypes of the op that computes y or a gradient.
struct ConvShape {
  DType dtype;   // of the operands
  DType result;  // f32 for a wide product
  Plane plane;
  int64_t batch, groups, in, out;  // channels of one group

  int64_t columns() const { return in * plane.elements(); }  // of the weights of one output channel
  int64_t x_elems() const { return in * plane.size(); }      // of one sample and group
  int64_t y_elems() const { return out * plane.windows(); }
  int64_t w_elems() const { return out * columns(); }  // of one group
  // Multiply-adds.
  double products() const { return static_cast<double>(batch * groups * y_elems()) * static_cast<double>(columns()); }
};

// The units of work so that several threads have enough of it.
inline constexpr int64_t kLeastConvUnits = 8;

// Elements of the sums of all parts of a gradient of weights, at most.
inline constexpr int64_t kMostConvSums = 4 << 20;

// f32 or bf16 by oneDNN; nothing if oneDNN has no fast implementation for the shape. (convolution_dnnl.cpp)
std::optional<Kernel> prepare_conv_dnnl(Op op, const ConvShape& shape);

// Windows of 3 × 3 with fewer multiplications: 32-bit and 16-bit floats, computed in f32. (convolution_winograd.cpp)
bool suits_winograd(Op op, const ConvShape& shape);
Kernel prepare_conv_winograd(Op op, const ConvShape& shape);

// Any shape and dtype, as products of matrices. (convolution_columns.cpp)
Kernel prepare_conv_columns(Op op, const ConvShape& shape);

}  // namespace runner::backends
