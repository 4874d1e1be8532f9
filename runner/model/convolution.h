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

enum class Interpolation { kNearest, kLinear, kBilinear };

// Arguments of torch.nn.functional.interpolate. ops::UpsampleOptions are those of the op, for known sizes.
struct InterpolateOptions {
  // To these sizes or by these factors: one for each spatial axis, or one for all. The other is empty.
  Sizes sizes = {};
  std::vector<double> factors = {};
  Interpolation mode = Interpolation::kNearest;  // kLinear: of one spatial axis; kBilinear: of two
  bool align_corners = false;                    // of kLinear and kBilinear
};

// ---- functions ----

// The windows of a convolution. Throws Error(kRun) for `same` with a stride above 1, and for an output padding that is
// not below the stride.
std::vector<backends::Window> conv_windows(const ConvOptions& options);
// torch.nn.functional.conv2d and conv_transpose2d without a bias, of one or two spatial axes. The weight is (out,
// in / groups, kernel…), or (in, out / groups, kernel…) of a transposed convolution.
Value convolved(Value x, Value weight, const ConvOptions& options);
Value transposed_convolved(Value x, Value weight, const ConvOptions& options);
// y (B, C, …) + bias (C).
Value with_channel_bias(Value y, Value bias);
// torch.nn.functional.interpolate. By a factor, an axis of n elements has ⌊n · factor⌋.
Value interpolated(Value x, const InterpolateOptions& options);

// ---- modules ----

// weight (out, in / groups, kernel…) and bias (out): U(±1/√(in / groups · elements of the kernel)), as torch.nn.Conv2d.
// Throws Error(kRun) if `groups` does not divide the channels.
ModulePtr conv(const ConvOptions& options);
// weight (in, out / groups, kernel…) and bias (out): U(±1/√(out / groups · elements of the kernel)), as
// torch.nn.ConvTranspose2d.
ModulePtr conv_transpose(const ConvOptions& options);

// A Pooling for each spatial axis. Throws Error(kRun) for a padding of more than half of the window.
ModulePtr max_pool(std::vector<backends::Pooling> pools);
ModulePtr avg_pool(std::vector<backends::Pooling> pools, bool count_padding = true);
ModulePtr adaptive_avg_pool(Sizes sizes);
ModulePtr adaptive_max_pool(Sizes sizes);
// (B, C, S…) -> (B, C): the mean of each channel.
ModulePtr global_avg_pool();
ModulePtr upsample(const InterpolateOptions& options);

// (B, H, W) or (B, L) -> (B, 1, H, W) or (B, 1, L): samples without channels have one; others stay.
Value with_channels(Value x);
// Gives samples channels before `inner`, without a level of its own in parameter names.
ModulePtr over_channels(ModulePtr inner);

}  // namespace runner::nn
