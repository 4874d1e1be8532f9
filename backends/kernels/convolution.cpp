// Chooses the kernel of a convolution or of one of its gradients.

#include "backends/kernels/convolution.h"

#include "backends/kernels/kernel_choices.h"
#include "backends/kernels/op_kernels.h"

namespace runner::backends {

namespace {

// The shapes of x and w, of the operands or the result.
struct ConvShapes {
  const Shape &x, &w;
};
ConvShapes conv_shapes(const KernelRequest& request) {
  const Shape &a = request.operands[0].shape, &b = request.operands[1].shape, &result = request.result.shape;
  if (request.op == Op::kConv) return {a, b};
  return request.op == Op::kConvGradX ? ConvShapes{result, b} : ConvShapes{a, result};
}

ConvShape conv_shape(const KernelRequest& request) {
  const auto [x, w] = conv_shapes(request);
  const auto [groups, wide, windows] = ConvAttributes::of(request.attrs);
  return {.dtype = request.operands[0].dtype,
          .result = request.result.dtype,
          .plane = Plane::of(x, windows),
          .batch = x[0],
          .groups = groups,
          .in = w[1],
          .out = w[0] / groups};
}

bool has_native_products(const ConvShape& s) {
  return s.dtype == DType::kBf16 && bf16_products_in_use() == Bf16Products::kNative;
}

// Whether oneDNN is at least as fast (bench/conv_bench.cpp), including the conversion of layouts: enough work, channels
// that fill its vectors, or one channel per group, which has kernels of its own.
bool suits_onednn(Op op, const ConvShape& s) {
  constexpr double kLeastProducts = 2 << 20;
  constexpr int64_t kLeastOut = 8;
  const int64_t least_wide = op == Op::kConv ? 3 : 1;  // with AVX-512, which has kernels for few channels
  const int64_t least_in = op == Op::kConvGradX ? 8 : onednn_limit().avx512 ? least_wide : 4;
  const bool is_depthwise = s.in == 1 && s.out == 1;
  return (s.dtype == DType::kF32 || has_native_products(s)) && s.products() >= kLeastProducts &&
         (is_depthwise || (s.in >= least_in && s.out >= kLeastOut));
}

Kernel prepare_conv(const KernelRequest& request) {
  const ConvShape shape = conv_shape(request);
  if (suits_winograd(request.op, shape) && !has_native_products(shape)) return prepare_conv_winograd(request.op, shape);
  if (suits_onednn(request.op, shape))
    if (std::optional<Kernel> kernel = prepare_conv_dnnl(request.op, shape)) return *std::move(kernel);
  return prepare_conv_columns(request.op, shape);
}

}  // namespace

// ---- reference kernels ----------------------------------------------------------------------------------------------

namespace reference {
namespace {

// Calls body(x, w, y) with the positions of each product of an element of x and of w that y sums.
template <class Body>
void for_products(const Call& call, const Shape& x, const Shape& w, const Body& body) {
  const std::vector<Window> windows = windows_of(ConvAttributes::of(call.attrs).windows);
  const bool is_plane = windows.size() == 2;
  const Window h = is_plane ? windows[0] : Window{}, v = windows.back();
  const int64_t height = is_plane ? x[2] : 1, width = x.back(), groups = call.attr(0);
  int64_t y = 0;
  for (int64_t b = 0; b < x[0]; ++b)
    for (int64_t o = 0; o < w[0]; ++o)
      for (int64_t i = 0; i < h.count(height); ++i)
        for (int64_t j = 0; j < v.count(width); ++j, ++y)
          for (int64_t c = 0; c < w[1]; ++c)
            for (int64_t k = 0; k < h.size * v.size; ++k) {
              const int64_t row = i * h.stride + k / v.size * h.dilation - h.before;
              const int64_t column = j * v.stride + k % v.size * v.dilation - v.before;
              if (row < 0 || row >= height || column < 0 || column >= width) continue;
              const int64_t channel = o / (w[0] / groups) * w[1] + c;
              body(((b * x[1] + channel) * height + row) * width + column, (o * w[1] + c) * h.size * v.size + k, y);
            }
}

void conv_loop(const Call& call, Operands in, Tensor& out) {
  for_products(call, in[0].shape(), in[1].shape(),
               [&](int64_t x, int64_t w, int64_t y) { out[y] += in[0][x] * in[1][w]; });
}

void conv_grad_x_loop(const Call& call, Operands in, Tensor& out) {
  for_products(call, out.shape(), in[1].shape(),
               [&](int64_t x, int64_t w, int64_t y) { out[x] += in[0][y] * in[1][w]; });
}

void conv_grad_w_loop(const Call& call, Operands in, Tensor& out) {
  for_products(call, in[0].shape(), out.shape(),
               [&](int64_t x, int64_t w, int64_t y) { out[w] += in[0][x] * in[1][y]; });
}

}  // namespace
}  // namespace reference

constexpr OpKernels op_kernels::kConv = {.reference = reference::conv_loop, .prepare = prepare_conv};
constexpr OpKernels op_kernels::kConvGradX = {.reference = reference::conv_grad_x_loop, .prepare = prepare_conv};
constexpr OpKernels op_kernels::kConvGradW = {.reference = reference::conv_grad_w_loop, .prepare = prepare_conv};

}  // namespace runner::backends
