// Convolutions: one file per implementation; convolution.cpp chooses.
#pragma once

#include <algorithm>
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

// Adds the sums of `parts` parts, `stride` elements apart, to those of the first, in order. Then calls finish(first, n)
// for each piece of the `elems` elements.
template <class T, class Finish>
void add_parts(WorkerPool& pool, T* sums, int64_t parts, int64_t stride, int64_t elems, const Finish& finish) {
  constexpr int64_t kPiece = 16 << 10;
  pool.parallel_for(ceil_div(elems, kPiece), [&](int64_t piece) {
    const int64_t first = piece * kPiece, n = std::min(kPiece, elems - first);
    for (int64_t part = 1; part < parts; ++part)
      window_loops<T>().add(sums + first, sums + part * stride + first, 1, n);
    finish(first, n);
  });
}

// f32 or bf16 by oneDNN; nothing if oneDNN has no fast implementation for the shape. (convolution_dnnl.cpp)
std::optional<Kernel> prepare_conv_dnnl(Op op, const ConvShape& shape);

}  // namespace runner::backends
