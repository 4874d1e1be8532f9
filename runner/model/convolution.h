// Convolution, pooling and upsampling: torch.nn.Conv1d, Conv2d, ConvTranspose2d, MaxPool2d and the like.
//
// x is (B, C, L) with one spatial axis, (B, C, H, W) with two; sizes have an element for each of these axes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runner/model/module.h"

namespace runner::nn {

using Sizes = std::vector<int64_t>;

struct ConvOptions {
  int64_t in = 0, out = 0;  // channels
  Sizes kernel;
  Sizes stride = {}, dilation = {};  // empty: 1
  Sizes padding = {};                // at both ends of each axis; empty: 0
  bool same = false;                 // pads so that the size stays; the odd element of an even kernel goes to the end
  int64_t groups = 1;
  bool bias = true;
  Sizes output_padding = {};            // of a transposed convolution: elements after the last window; empty: 0
  std::optional<Initialiser> weight{};  // default: as torch.nn.Conv2d
};

// The windows of a convolution. Throws Error(kRun) for `same` with a stride above 1, and for sizes without an element
// for each axis.
std::vector<backends::Window> windows_of(const ConvOptions& options);
// The sizes of the spatial axes of a transposed convolution of a tensor with these spatial axes, as
// torch.nn.ConvTranspose2d.
Sizes transposed_sizes(const ConvOptions& options, std::span<const int64_t> sizes);
// The same for torch.nn.functional.conv2d and conv_transpose2d.
Value convolved(Value x, Value weight, const ConvOptions& options);
Value transposed_convolved(Value x, Value weight, const ConvOptions& options);
// y (B, C, …) + bias (C).
Value with_channel_bias(Value y, Value bias);

// weight (out, in / groups, kernel…) and bias (out): U(±1/√(in / groups · elements of the kernel)), as torch.nn.Conv2d.
// Throws Error(kRun) if `groups` does not divide the channels.
ModulePtr conv(const ConvOptions& options);
// weight (in, out / groups, kernel…) and bias (out), as torch.nn.ConvTranspose2d.
ModulePtr conv_transpose(const ConvOptions& options);

ModulePtr max_pool(std::vector<backends::Pooling> pools);
ModulePtr avg_pool(std::vector<backends::Pooling> pools, bool count_padding = true);
ModulePtr adaptive_avg_pool(Sizes sizes);
ModulePtr adaptive_max_pool(Sizes sizes);
// (B, C, S…) -> (B, C): the mean of each channel.
ModulePtr global_avg_pool();
// To these sizes, or by these factors if `sizes` is empty.
ModulePtr upsample(Sizes sizes, std::vector<double> factors, const backends::ops::UpsampleOptions& options);
Sizes upsampled_sizes(const backends::Shape& shape, std::span<const double> factors);

// (B, H, W) or (B, L) -> (B, 1, H, W) or (B, 1, L): samples without channels have one; others stay.
Value with_channels(Value x);
// Gives samples channels before `inner`, without a level of its own in parameter names.
ModulePtr over_channels(ModulePtr inner);

}  // namespace runner::nn
