// Convolutions with windows of 3 × 3 and their gradients: each implementation that has the shape, in turn.
//
//     conv_bench [THREADS [DTYPE]]   ->   ms of the best run, and GF/s as if each used all multiplications

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "backends/kernels/convolution.h"
#include "backends/runtime/worker_pool.h"
#include "backends/tensor/alignment.h"

namespace {

using namespace runner::backends;

struct Case {
  int64_t batch, in, out, size, stride = 1, padding = 1;
};
constexpr Case kCases[] = {{64, 32, 64, 26, 1, 0}, {64, 64, 64, 32},     {64, 128, 128, 16},   {64, 256, 256, 8},
                           {64, 512, 512, 4},      {64, 64, 128, 32, 2}, {64, 256, 512, 8, 2}, {64, 1, 32, 28, 1, 0},
                           {64, 3, 64, 32},        {64, 16, 16, 32},     {64, 32, 32, 16},     {64, 16, 32, 8},
                           {8, 64, 64, 56},        {1, 64, 64, 56},      {1, 256, 256, 14},    {1, 512, 512, 7},
                           {1, 16, 16, 32},        {2, 32, 32, 16},      {64, 24, 40, 15}};

ConvShape shape_of(const Case& c, DType dtype) {
  const Window window{.size = 3, .stride = c.stride, .dilation = 1, .before = c.padding, .after = c.padding};
  const PlaneAxis axis{c.size, window.count(c.size), window};
  return {
      .dtype = dtype, .result = dtype, .plane = {axis, axis}, .batch = c.batch, .groups = 1, .in = c.in, .out = c.out};
}

// Memory for the largest tensor or scratch, zeros.
struct Buffer {
  std::byte* data = nullptr;
  size_t size = 0;

  std::byte* of(size_t bytes) {
    if (bytes <= size) return data;
    std::free(data);
    size = aligned(bytes) + 4096;
    data = static_cast<std::byte*>(std::aligned_alloc(4096, (size + 4095) / 4096 * 4096));
    std::memset(data, 0, size);
    return data;
  }
};

double milliseconds(const Kernel& kernel, const ConvShape& s, WorkerPool& pool) {
  static Buffer x, w, y, scratch;
  const size_t element = size_of(s.dtype);
  const auto bytes = [&](int64_t elems) { return static_cast<size_t>(elems) * element; };
  std::byte* const tensors[] = {x.of(bytes(s.batch * s.x_elems())), y.of(bytes(s.batch * s.y_elems())),
                                w.of(bytes(s.w_elems()))};
  // Zeros cost as much as other values, and every op has two operands and one result of at most these sizes.
  const bool gives_w = kernel.name.starts_with("conv_grad_w"), gives_x = kernel.name.starts_with("conv_grad_x");
  std::byte* const operands[] = {gives_x ? tensors[1] : tensors[0], gives_w ? tensors[1] : tensors[2]};
  std::byte* const results[] = {gives_w ? tensors[2] : gives_x ? tensors[0] : tensors[1]};
  const KernelArguments arguments{operands, results, scratch.of(kernel.scratch_bytes + 64), pool};
  const auto start = std::chrono::steady_clock::now();
  kernel.run(kernel.params.get(), arguments);
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

int main(int argc, char** argv) {
  WorkerPool pool(argc > 1 ? std::atoi(argv[1]) : 1);
  const DType dtype = argc > 2 && std::strcmp(argv[2], "bf16") == 0 ? DType::kBf16 : DType::kF32;
  for (const Case& c : kCases) {
    const ConvShape shape = shape_of(c, dtype);
    for (const Op op : {Op::kConv, Op::kConvGradX, Op::kConvGradW}) {
      std::vector<Kernel> kernels;
      if (suits_winograd(op, shape)) kernels.push_back(prepare_conv_winograd(op, shape));
      if (std::optional<Kernel> kernel = prepare_conv_dnnl(op, shape)) kernels.push_back(*std::move(kernel));
      kernels.push_back(prepare_conv_columns(op, shape));
      std::vector<double> best(kernels.size(), 1e9);
      for (int round = 0; round < 15; ++round)
        for (size_t i = 0; i < kernels.size(); ++i) best[i] = std::min(best[i], milliseconds(kernels[i], shape, pool));
      std::printf("%3d × %3d to %3d channels, %2d × %2d, stride %d:", int(c.batch), int(c.in), int(c.out), int(c.size),
                  int(c.size), int(c.stride));
      for (size_t i = 0; i < kernels.size(); ++i)
        std::printf("  %s %.3f ms, %.0f GF/s", kernels[i].name.c_str(), best[i], 2 * shape.products() / best[i] * 1e-6);
      std::printf("\n");
    }
  }
}
