// model.type cnn: the layers of model.stack and an output layer, as one nn.Sequential.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runner/model/convolution.h"
#include "runner/model/model_def.h"
#include "runner/model/norms.h"
#include "schema/base/error.h"

namespace runner::nn {
namespace {

using backends::Pooling;
using backends::Shape;
using schema::StackLayer;
using schema::StackWord;

// The elements of a list with an element for each axis, or of one for all axes.
Sizes for_axes(const Sizes& sizes, size_t axes) {
  return sizes.size() == 1 ? Sizes(axes, sizes[0]) : sizes;
}

// Adds the layers of a stack one after the other, and knows the shape of a sample between them: (C, S…), or (features).
class StackBuilder {
 public:
  // `sample`: (L), (H, W) or (C, H, W).
  explicit StackBuilder(const Shape& sample) {
    std::vector<int64_t> dims(sample.dims().begin(), sample.dims().end());
    if (dims.size() < 3) dims.insert(dims.begin(), 1);
    shape_ = Shape(dims);
  }

  void add(const StackLayer& layer) {
    place_ = fmt::format("model.stack[{}]", modules_.size());
    about_key(place_, [&] { modules_.push_back(checked_module_of(layer)); });
  }

  ModulePtr finish(int64_t outputs) {
    RUN_CHECK(axes() == 0, ErrorKind::kRecipe,
              "model.stack ends with samples {}, but the output layer needs features without spatial axes; add flatten "
              "or global_avg_pool",
              shape_.to_string());
    modules_.push_back(linear(shape_[0], outputs));
    return over_channels(sequential(std::move(modules_)));
  }

 private:
  size_t axes() const { return static_cast<size_t>(shape_.rank() - 1); }
  int64_t channels() const { return shape_[0]; }

  void require_axes(std::string_view name) const {
    RUN_CHECK(axes() > 0, ErrorKind::kRecipe, "{}: {} needs channels with spatial axes, but gets samples {}", place_,
              name, shape_.to_string());
  }
  void require_flat(std::string_view name) const {
    RUN_CHECK(
        axes() == 0, ErrorKind::kRecipe,
        "{}: {} needs features without spatial axes, but gets samples {}; add flatten or global_avg_pool before it",
        place_, name, shape_.to_string());
  }

  // What a module refuses is an error of its layer.
  ModulePtr checked_module_of(const StackLayer& layer) {
    try {
      return module_of(layer);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kRun) throw;
      fail(ErrorKind::kRecipe, "{}: {}", place_, error.message());
    }
  }

  ModulePtr module_of(const StackLayer& layer) {
    if (layer.conv) return add_conv(layer);
    if (!layer.max_pool.empty()) return add_pool(layer, layer.max_pool, "max_pool");
    if (!layer.avg_pool.empty()) return add_pool(layer, layer.avg_pool, "avg_pool");
    if (layer.linear) return add_linear(layer);
    if (layer.dropout) return dropout(*layer.dropout);
    if (layer.batch_norm) return add_batch_norm(*layer.batch_norm);
    if (layer.group_norm) return add_group_norm(layer);
    return add_word(*layer.layer);
  }

  ModulePtr add_word(StackWord word) {
    switch (word) {
      case StackWord::kRelu: return activation(schema::Activation::kRelu);
      case StackWord::kGelu: return activation(schema::Activation::kGelu);
      case StackWord::kGeluTanh: return activation(schema::Activation::kGeluTanh);
      case StackWord::kSilu: return activation(schema::Activation::kSilu);
      case StackWord::kTanh: return activation(schema::Activation::kTanh);
      case StackWord::kSigmoid: return activation(schema::Activation::kSigmoid);
      case StackWord::kFlatten: shape_ = Shape{shape_.elements()}; return flatten();
      case StackWord::kGlobalAvgPool:
        require_axes("global_avg_pool");
        shape_ = Shape{channels()};
        return global_avg_pool();
      case StackWord::kBatchNorm: return add_batch_norm({});
    }
    RUN_ASSERT(false);
  }

  ModulePtr add_conv(const StackLayer& layer) {
    require_axes("conv");
    const bool same = !layer.padding.empty() && !layer.padding[0].word.empty();
    const ConvOptions options{.in = channels(),
                              .out = *layer.conv,
                              .kernel = sizes_of(layer.kernel, "kernel"),
                              .stride = sizes_of(layer.stride, "stride"),
                              .dilation = sizes_of(layer.dilation, "dilation"),
                              .padding = same ? Sizes{} : sizes_of(padding_of(layer), "padding"),
                              .same = same,
                              .groups = layer.groups.value_or(1),
                              .bias = layer.bias.value_or(true)};
    ModulePtr module = conv(options);
    apply_windows(conv_windows(options), "conv");
    shape_ = shape_.with(0, options.out);
    return module;
  }

  ModulePtr add_pool(const StackLayer& layer, const Sizes& sizes, std::string_view name) {
    require_axes(name);
    const Sizes size = sizes_of(sizes, name), stride = layer.stride.empty() ? size : sizes_of(layer.stride, "stride");
    const Sizes padding = sizes_of(padding_of(layer), "padding"), dilation = sizes_of(layer.dilation, "dilation");
    std::vector<Pooling> pools;
    std::vector<backends::Window> windows;
    for (size_t i = 0; i < axes(); ++i) {
      const Pooling pool{.size = size[i],
                         .stride = stride[i],
                         .padding = padding.empty() ? 0 : padding[i],
                         .dilation = dilation.empty() ? 1 : dilation[i],
                         .ceil_mode = layer.ceil_mode.value_or(false)};
      windows.push_back(pool.on(shape_[static_cast<int>(1 + i)]));
      pools.push_back(pool);
    }
    ModulePtr module = name == "max_pool" ? max_pool(std::move(pools))
                                          : avg_pool(std::move(pools), layer.count_include_pad.value_or(true));
    apply_windows(windows, name);
    return module;
  }

  ModulePtr add_linear(const StackLayer& layer) {
    require_flat("linear");
    ModulePtr module = linear(shape_[0], *layer.linear, layer.bias.value_or(true));
    shape_ = Shape{*layer.linear};
    return module;
  }

  ModulePtr add_batch_norm(const schema::BatchNormSpec& spec) {
    return batch_norm(channels(), axes() == 2 ? 2 : 1, BatchNormOptions::of(spec));
  }

  ModulePtr add_group_norm(const StackLayer& layer) {
    return group_norm(*layer.group_norm, channels(), layer.eps.value_or(kNormEpsilon));
  }

  // Moves windows over the axes of a sample.
  void apply_windows(const std::vector<backends::Window>& windows, std::string_view name) {
    const Shape before = shape_;
    for (size_t i = 0; i < windows.size(); ++i) {
      const int axis = static_cast<int>(1 + i);
      const backends::Window& window = windows[i];
      const int64_t n = shape_[axis], count = window.count(n);
      RUN_CHECK(count > 0, ErrorKind::kRun, backends::kDoesNotFit, name, window.extent(), n,
                "samples " + before.to_string(), window.before, window.after);
      shape_ = shape_.with(axis, count);
    }
  }

  // `key`: of the layer. Only series can have fewer axes than a list has numbers.
  Sizes sizes_of(const Sizes& sizes, std::string_view key) const {
    if (sizes.size() > axes())
      about_key(fmt::format("{}.{}", place_, key), [&] {
        fail(ErrorKind::kRecipe,
             "{0}.{1}: expected one number for the one axis of samples {2}, got [{3}]; write {1}: {4}", place_, key,
             shape_.to_string(), fmt::join(sizes, ", "), sizes[0]);
      });
    return for_axes(sizes, axes());
  }
  static Sizes padding_of(const StackLayer& layer) {
    Sizes sizes;
    for (const auto& padding : layer.padding) sizes.push_back(padding.number);
    return sizes;
  }

  Shape shape_;
  std::string place_;
  std::vector<ModulePtr> modules_;
};

ModulePtr build_cnn(const schema::ModelSpec& spec, const data::Encoding& data) {
  StackBuilder builder(data.feature_shape);
  for (const StackLayer& layer : spec.stack) builder.add(layer);
  return builder.finish(data.outputs);
}

// Images, or series of one channel.
constexpr InputSpec kImagesOrSeries{.kind = ModelInputKind::kNumbers,
                                    .least_axes = 1,
                                    .most_axes = 3,
                                    .others = kNoOthers,
                                    .outputs = OutputsPer::kSample};

}  // namespace

const ModelDef kCnnModel{
    .type = schema::ModelType::kCnn,
    .inputs = kImagesOrSeries,
    .check = [](const schema::ModelSpec& spec, const data::Encoding& data) { build_cnn(spec, data); },
    .check_labels = kNoCheck,
    .build = build_cnn,
    .transformer = kNoTransformer,
    .output_layer = kNoNewHead,
    .pretrained = kNotPretrained,
};

}  // namespace runner::nn
