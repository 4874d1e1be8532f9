#include "runner/model/convolution.h"

#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/ir/type_text.h"

namespace runner::nn {
namespace {

namespace ops = backends::ops;
using backends::Pooling;
using backends::Shape;
using backends::Window;

int64_t at(const Sizes& sizes, size_t axis, int64_t otherwise) {
  return sizes.empty() ? otherwise : sizes[axis];
}

void check_axes(const Sizes& sizes, size_t axes, std::string_view name) {
  RUN_CHECK(sizes.empty() || sizes.size() == axes, ErrorKind::kRun, "expected {} with {} elements, got ({})", name,
            axes, fmt::join(sizes, ", "));
}

int64_t product(const Sizes& sizes) {
  int64_t all = 1;
  for (const int64_t size : sizes) all *= size;
  return all;
}

// "3", or "{3, 5}" for sizes that differ.
std::string sizes_text(const Sizes& sizes) {
  const bool is_one = std::ranges::all_of(sizes, [&](int64_t size) { return size == sizes.front(); });
  return is_one ? fmt::format("{}", sizes.front()) : fmt::format("{{{}}}", fmt::join(sizes, ", "));
}

// ", {stride = 2, padding = 1}": options that are not the defaults.
class OptionsText {
 public:
  void add(std::string_view name, const Sizes& sizes, int64_t usual) {
    const auto is_usual = [&](int64_t size) { return size == usual; };
    if (!std::ranges::all_of(sizes, is_usual)) add(name, sizes_text(sizes));
  }
  void add(std::string_view name, const std::string& value) {
    text_ += fmt::format("{}{} = {}", text_.empty() ? ", {" : ", ", name, value);
  }
  std::string text() const { return text_.empty() ? "" : text_ + "}"; }

 private:
  std::string text_;
};

class Conv : public Module {
 public:
  Conv(ConvOptions options, bool is_transposed) : options_(std::move(options)), is_transposed_(is_transposed) {
    const ConvOptions& o = options_;
    RUN_CHECK(o.groups > 0 && o.in % o.groups == 0 && o.out % o.groups == 0, ErrorKind::kRun,
              "expected groups that divide {} and {} channels, got {}", o.in, o.out, o.groups);
    windows_of(o);  // checks
  }

  void add_parameters(ParameterSet& parameters, const std::string& prefix) override {
    const ConvOptions& o = options_;
    std::vector<int64_t> dims{is_transposed_ ? o.in : o.out, (is_transposed_ ? o.out : o.in) / o.groups};
    for (const int64_t size : o.kernel) dims.push_back(size);
    const auto fan_in = static_cast<double>(dims[1] * product(o.kernel));
    const Initialiser uniform{Initialiser::Kind::kUniform, 1 / std::sqrt(fan_in)};
    weight_ = parameters.add(prefix + "weight", Shape(dims), o.weight.value_or(uniform));
    if (o.bias) bias_ = parameters.add(prefix + "bias", Shape{o.out}, uniform, ParameterRole::kBias);
  }

  Value record(ForwardContext& context, Value x) const override {
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
    if (!o.bias) options.add("bias", "false");
    return fmt::format("{}({}, {}, {}{})", type(), o.in, o.out, sizes_text(o.kernel), options.text());
  }

 private:
  const ConvOptions options_;
  const bool is_transposed_;
  ParameterId weight_ = kNoParameter, bias_ = kNoParameter;
};

class Pool : public Module {
 public:
  Pool(std::vector<Pooling> pools, bool is_max, bool count_padding)
      : pools_(std::move(pools)), is_max_(is_max), count_padding_(count_padding) {}

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
    if (pools_.front().ceil_mode) options.add("ceil_mode", "true");
    if (!is_max_ && !count_padding_) options.add("count_include_pad", "false");
    return fmt::format("{}({}{})", type(), sizes_text(size), options.text());
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
  Upsample(Sizes sizes, std::vector<double> factors, const ops::UpsampleOptions& options)
      : sizes_(std::move(sizes)), factors_(std::move(factors)), options_(options) {}

  Value record(ForwardContext&, Value x) const override {
    return ops::upsample(x, sizes_.empty() ? upsampled_sizes(x.shape(), factors_) : sizes_, options_);
  }

  std::string_view type() const override { return "nn.Upsample"; }
  std::string text() const override { return "nn.Upsample(…)"; }

 private:
  const Sizes sizes_;
  const std::vector<double> factors_;
  const ops::UpsampleOptions options_;
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

std::vector<Window> windows_of(const ConvOptions& options) {
  const size_t axes = options.kernel.size();
  check_axes(options.stride, axes, "a stride");
  check_axes(options.dilation, axes, "a dilation");
  check_axes(options.padding, axes, "a padding");
  check_axes(options.output_padding, axes, "an output padding");
  std::vector<Window> windows;
  for (size_t i = 0; i < axes; ++i) {
    Window window{
        .size = options.kernel[i], .stride = at(options.stride, i, 1), .dilation = at(options.dilation, i, 1)};
    RUN_CHECK(window.size > 0 && window.stride > 0 && window.dilation > 0 && at(options.padding, i, 0) >= 0,
              ErrorKind::kRun, "expected sizes of at least 1 and a padding of at least 0");
    RUN_CHECK(!options.same || window.stride == 1, ErrorKind::kRun,
              "padding same cannot be used with a stride of {}; give the padding as a number", window.stride);
    const int64_t padding = options.same ? window.extent() - 1 : 2 * at(options.padding, i, 0);
    window.before = padding / 2;
    window.after = padding - window.before;
    windows.push_back(window);
  }
  return windows;
}

Sizes transposed_sizes(const ConvOptions& options, std::span<const int64_t> sizes) {
  const std::vector<Window> windows = windows_of(options);
  RUN_CHECK(sizes.size() == windows.size(), ErrorKind::kRun, "expected a tensor with {} spatial axes, got {}",
            windows.size(), sizes.size());
  Sizes made;
  for (size_t i = 0; i < windows.size(); ++i) {
    const Window& window = windows[i];
    const int64_t more = at(options.output_padding, i, 0);
    RUN_CHECK(more >= 0 && more < window.stride, ErrorKind::kRun,
              "expected an output padding below the stride {}, got {}", window.stride, more);
    made.push_back((sizes[i] - 1) * window.stride + window.extent() - window.before - window.after + more);
    RUN_CHECK(made.back() > 0, ErrorKind::kRun, "the result would have {} elements along axis {}", made.back(), 2 + i);
  }
  return made;
}

Value convolved(Value x, Value weight, const ConvOptions& options) {
  return ops::conv(x, weight, windows_of(options), options.groups);
}

Value transposed_convolved(Value x, Value weight, const ConvOptions& options) {
  const Shape shape = x.shape();
  RUN_CHECK(shape.rank() > 2, ErrorKind::kRun, "conv_transpose: expected (B, C, …), got {}", x.type());
  return ops::conv_transpose(x, weight, windows_of(options), transposed_sizes(options, shape.dims().subspan(2)),
                             options.groups);
}

Value with_channel_bias(Value y, Value bias) {
  std::vector<int64_t> dims(static_cast<size_t>(y.shape().rank() - 1), 1);
  dims[0] = bias.shape().elements();
  return ops::add(y, ops::reshape(bias, Shape(dims)));
}

Sizes upsampled_sizes(const Shape& shape, std::span<const double> factors) {
  RUN_CHECK(shape.rank() == 2 + std::ssize(factors), ErrorKind::kRun,
            "upsample: expected a tensor with {} spatial axes, got {}", factors.size(), shape.to_string());
  Sizes sizes;
  for (size_t i = 0; i < factors.size(); ++i)
    sizes.push_back(static_cast<int64_t>(static_cast<double>(shape[static_cast<int>(2 + i)]) * factors[i]));
  return sizes;
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
ModulePtr upsample(Sizes sizes, std::vector<double> factors, const ops::UpsampleOptions& options) {
  return std::make_shared<Upsample>(std::move(sizes), std::move(factors), options);
}
ModulePtr over_channels(ModulePtr inner) {
  return std::make_shared<OverChannels>(std::move(inner));
}

}  // namespace runner::nn
