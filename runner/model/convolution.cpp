#include "runner/model/convolution.h"

#include <cmath>
#include <cstdint>

#include <fmt/format.h>

#include "backends/ir/type_text.h"
#include "runner/model/options_text.h"

namespace runner::nn {
namespace {

namespace ops = backends::ops;
using backends::Pooling;
using backends::Shape;
using backends::Window;

int64_t at(const Sizes& sizes, size_t axis, int64_t otherwise) {
  return sizes.empty() ? otherwise : sizes[axis];
}

// One number for each axis, of a list that may have one for all of them.
template <class Number>
std::vector<Number> for_each_axis(const std::vector<Number>& numbers, size_t axes, Value x) {
  RUN_CHECK(numbers.size() == 1 || numbers.size() == axes, ErrorKind::kRun,
            "upsample: expected a size or factor for each spatial axis of {}, got {}", x.type(), numbers.size());
  return numbers.size() == 1 ? std::vector<Number>(axes, numbers[0]) : numbers;
}

// "(B, 3, H, W)"
std::string shape_text(int64_t channels, size_t axes) {
  return fmt::format("(B, {}, {})", channels, axes == 1 ? "L" : "H, W");
}

class Conv : public Module {
 public:
  Conv(ConvOptions options, bool is_transposed) : options_(std::move(options)), is_transposed_(is_transposed) {
    const ConvOptions& o = options_;
    const std::string fault = backends::groups_fault(o.groups, o.in, o.out);
    RUN_CHECK(fault.empty(), ErrorKind::kRun, "{}: {}", is_transposed ? "conv_transpose" : "conv", fault);
    conv_windows(o);  // checks
  }

  void add_parameters(ParameterSet& parameters, const std::string& prefix) override {
    const ConvOptions& o = options_;
    std::vector<int64_t> dims{is_transposed_ ? o.in : o.out, (is_transposed_ ? o.out : o.in) / o.groups};
    dims.insert(dims.end(), o.kernel.begin(), o.kernel.end());
    const Shape shape(dims);
    const int64_t fan_in = shape.elements() / shape[0];
    const Initialiser uniform{Initialiser::Kind::kUniform, 1 / std::sqrt(static_cast<double>(fan_in))};
    weight_ = parameters.add(prefix + "weight", shape, o.weight.value_or(uniform));
    if (o.bias) bias_ = parameters.add(prefix + "bias", Shape{o.out}, uniform, ParameterRole::kBias);
  }

  Value record(ForwardContext& context, Value x) const override {
    const size_t axes = options_.kernel.size();
    RUN_CHECK(x.shape().rank() == 2 + std::ssize(options_.kernel) && x.shape()[1] == options_.in && is_float(x.dtype()),
              ErrorKind::kRun, "expected a tensor of floats {}, got {}", shape_text(options_.in, axes), x.type());
    const auto operand = [&](Value value) { return context.autocast.operand(backends::Op::kConv, value); };
    const Value weight = operand(context.parameter(weight_));
    const Value y =
        is_transposed_ ? transposed_convolved(operand(x), weight, options_) : convolved(operand(x), weight, options_);
    return options_.bias ? with_channel_bias(y, operand(context.parameter(bias_))) : y;
  }

  std::vector<std::pair<std::string, ParameterId>> own_parameters() const override {
    std::vector<std::pair<std::string, ParameterId>> named{{"weight", weight_}};
    if (options_.bias) named.emplace_back("bias", bias_);
    return named;
  }

  std::string_view type() const override {
    if (is_transposed_) return options_.kernel.size() == 1 ? "nn.ConvTranspose1d" : "nn.ConvTranspose2d";
    return options_.kernel.size() == 1 ? "nn.Conv1d" : "nn.Conv2d";
  }
  std::string text() const override {
    const ConvOptions& o = options_;
    OptionsText options;
    options.add("stride", o.stride, 1);
    if (o.same) options.add("padding", "\"same\"");
    options.add("padding", o.padding, 0);
    options.add("output_padding", o.output_padding, 0);
    options.add("dilation", o.dilation, 1);
    if (o.groups > 1) options.add("groups", std::to_string(o.groups));
    options.add("bias", o.bias, true);
    return fmt::format("{}({}, {}, {}{})", type(), o.in, o.out, sizes_text(o.kernel), options.after_arguments());
  }

 private:
  const ConvOptions options_;
  const bool is_transposed_;
  ParameterId weight_ = kNoParameter, bias_ = kNoParameter;
};

class Pool : public Module {
 public:
  Pool(std::vector<Pooling> pools, bool is_max, bool count_padding)
      : pools_(std::move(pools)), is_max_(is_max), count_padding_(count_padding) {
    for (const Pooling& pool : pools_) {
      const std::string fault = pool.fault();
      RUN_CHECK(fault.empty(), ErrorKind::kRun, "{}: {}", is_max ? "max_pool" : "avg_pool", fault);
    }
  }

  Value record(ForwardContext&, Value x) const override {
    return is_max_ ? ops::max_pool(x, pools_) : ops::avg_pool(x, pools_, count_padding_);
  }

  std::string_view type() const override {
    if (pools_.size() == 1) return is_max_ ? "nn.MaxPool1d" : "nn.AvgPool1d";
    return is_max_ ? "nn.MaxPool2d" : "nn.AvgPool2d";
  }
  std::string text() const override {
    Sizes size, padding, dilation, stride;
    for (const Pooling& pool : pools_) {
      size.push_back(pool.size);
      stride.push_back(pool.stride);
      padding.push_back(pool.padding);
      dilation.push_back(pool.dilation);
    }
    OptionsText options;
    if (stride != size) options.add("stride", sizes_text(stride));
    options.add("padding", padding, 0);
    options.add("dilation", dilation, 1);
    options.add("ceil_mode", pools_.front().ceil_mode, false);
    if (!is_max_) options.add("count_include_pad", count_padding_, true);
    return fmt::format("{}({}{})", type(), sizes_text(size), options.after_arguments());
  }

 private:
  const std::vector<Pooling> pools_;
  const bool is_max_, count_padding_;
};

class AdaptivePool : public Module {
 public:
  AdaptivePool(Sizes sizes, bool is_max) : sizes_(std::move(sizes)), is_max_(is_max) {}

  Value record(ForwardContext&, Value x) const override {
    return is_max_ ? ops::adaptive_max_pool(x, sizes_) : ops::adaptive_avg_pool(x, sizes_);
  }

  std::string_view type() const override {
    if (sizes_.size() == 1) return is_max_ ? "nn.AdaptiveMaxPool1d" : "nn.AdaptiveAvgPool1d";
    return is_max_ ? "nn.AdaptiveMaxPool2d" : "nn.AdaptiveAvgPool2d";
  }
  std::string text() const override { return fmt::format("{}({})", type(), sizes_text(sizes_)); }

 private:
  const Sizes sizes_;
  const bool is_max_;
};

class GlobalAvgPool : public Module {
 public:
  Value record(ForwardContext&, Value x) const override {
    RUN_CHECK(x.shape().rank() > 2, ErrorKind::kRun, "global_avg_pool: expected (B, C, …), got {}", x.type());
    std::vector<int64_t> axes;
    for (int64_t axis = 2; axis < x.shape().rank(); ++axis) axes.push_back(axis);
    return ops::mean(x, axes);
  }

  std::string_view type() const override { return "global_avg_pool"; }
};

class Upsample : public Module {
 public:
  explicit Upsample(InterpolateOptions options) : options_(std::move(options)) {}

  Value record(ForwardContext&, Value x) const override { return interpolated(x, options_); }

  std::string_view type() const override { return "nn.Upsample"; }
  std::string text() const override {
    const InterpolateOptions& o = options_;
    OptionsText options;
    if (o.sizes.empty())
      options.add("scale_factor", sizes_text(o.factors));
    else
      options.add("size", sizes_text(o.sizes));
    if (o.mode != Interpolation::kNearest)
      options.add("mode", o.mode == Interpolation::kLinear ? "\"linear\"" : "\"bilinear\"");
    options.add("align_corners", o.align_corners, false);
    return fmt::format("nn.Upsample({})", options.text());
  }

 private:
  const InterpolateOptions options_;
};

class OverChannels : public Module {
 public:
  explicit OverChannels(ModulePtr inner) : inner_(std::move(inner)) { contain(*inner_); }

  void add_parameters(ParameterSet& parameters, const std::string& prefix) override {
    inner_->declare(parameters, prefix);
  }
  Value record(ForwardContext& context, Value x) const override { return inner_->forward(context, with_channels(x)); }
  std::span<const ModulePtr> members() const override { return inner_->members(); }
  std::string text() const override { return inner_->text(); }

 private:
  ModulePtr inner_;
};

}  // namespace

// ---- functions -----------------------------------------------------------------------------------------------------

std::vector<Window> conv_windows(const ConvOptions& options) {
  const size_t axes = options.kernel.size();
  for (const Sizes& sizes : {options.stride, options.dilation, options.padding, options.output_padding})
    RUN_ASSERT(sizes.empty() || sizes.size() == axes);
  std::vector<Window> windows;
  for (size_t i = 0; i < axes; ++i) {
    Window window{
        .size = options.kernel[i], .stride = at(options.stride, i, 1), .dilation = at(options.dilation, i, 1)};
    const int64_t more = at(options.output_padding, i, 0);
    RUN_CHECK(!options.same || window.stride == 1, ErrorKind::kRun,
              "conv: padding same cannot be used with a stride of {}; give the padding as a number", window.stride);
    RUN_CHECK(more < window.stride, ErrorKind::kRun,
              "conv_transpose: expected an output padding below the stride {}, got {}", window.stride, more);
    const int64_t padding = options.same ? window.extent() - 1 : 2 * at(options.padding, i, 0);
    window.before = padding / 2;
    window.after = padding - window.before;
    windows.push_back(window);
  }
  return windows;
}

Value convolved(Value x, Value weight, const ConvOptions& options) {
  return ops::conv(x, weight, conv_windows(options), options.groups);
}

Value transposed_convolved(Value x, Value weight, const ConvOptions& options) {
  const std::vector<Window> windows = conv_windows(options);
  Sizes sizes;
  for (size_t i = 0; i < windows.size(); ++i) {
    const Window& window = windows[i];
    const int64_t n = x.shape()[static_cast<int>(2 + i)];
    const int64_t size = (n - 1) * window.stride + window.extent() + at(options.output_padding, i, 0);
    sizes.push_back(size - window.before - window.after);
    RUN_CHECK(sizes.back() > 0, ErrorKind::kRun,
              "conv_transpose: a padding of {} leaves none of the {} elements made of {}", window.before, size,
              x.type());
  }
  return ops::conv_transpose(x, weight, windows, sizes, options.groups);
}

Value with_channel_bias(Value y, Value bias) {
  std::vector<int64_t> dims(static_cast<size_t>(y.shape().rank() - 1), 1);
  dims[0] = bias.shape().elements();
  return ops::add(y, ops::reshape(bias, Shape(dims)));
}

Value interpolated(Value x, const InterpolateOptions& options) {
  const int rank = x.shape().rank();
  const bool is_linear = options.mode == Interpolation::kLinear, is_bilinear = options.mode == Interpolation::kBilinear;
  RUN_CHECK((rank == 3 && !is_bilinear) || (rank == 4 && !is_linear), ErrorKind::kRun, "upsample: expected {}, got {}",
            is_linear     ? "a tensor (B, C, L) for the mode linear"
            : is_bilinear ? "a tensor (B, C, H, W) for the mode bilinear"
                          : "a tensor (B, C, L) or (B, C, H, W)",
            x.type());
  const auto axes = static_cast<size_t>(rank - 2);
  ops::UpsampleOptions by{.linear = is_linear || is_bilinear, .align_corners = options.align_corners};
  if (!options.sizes.empty()) return ops::upsample(x, for_each_axis(options.sizes, axes, x), by);
  by.factors = for_each_axis(options.factors, axes, x);
  Sizes sizes;
  for (size_t i = 0; i < axes; ++i) {
    const double size = std::floor(static_cast<double>(x.shape()[static_cast<int>(2 + i)]) * by.factors[i]);
    RUN_CHECK(size >= 1 && size <= INT32_MAX, ErrorKind::kRun, "upsample: a factor of {} would make {} elements of {}",
              by.factors[i], size, x.type());
    sizes.push_back(static_cast<int64_t>(size));
  }
  return ops::upsample(x, sizes, by);
}

Value with_channels(Value x) {
  const Shape shape = x.shape();
  const bool has_channels = shape.rank() > 3;
  return has_channels ? x : ops::unsqueeze(x, 1);
}

// ---- modules -------------------------------------------------------------------------------------------------------

ModulePtr conv(const ConvOptions& options) {
  return std::make_shared<Conv>(options, false);
}
ModulePtr conv_transpose(const ConvOptions& options) {
  return std::make_shared<Conv>(options, true);
}
ModulePtr max_pool(std::vector<Pooling> pools) {
  return std::make_shared<Pool>(std::move(pools), true, true);
}
ModulePtr avg_pool(std::vector<Pooling> pools, bool count_padding) {
  return std::make_shared<Pool>(std::move(pools), false, count_padding);
}
ModulePtr adaptive_avg_pool(Sizes sizes) {
  return std::make_shared<AdaptivePool>(std::move(sizes), false);
}
ModulePtr adaptive_max_pool(Sizes sizes) {
  return std::make_shared<AdaptivePool>(std::move(sizes), true);
}
ModulePtr global_avg_pool() {
  return std::make_shared<GlobalAvgPool>();
}
ModulePtr upsample(const InterpolateOptions& options) {
  return std::make_shared<Upsample>(options);
}
ModulePtr over_channels(ModulePtr inner) {
  return std::make_shared<OverChannels>(std::move(inner));
}

}  // namespace runner::nn
