// model.type resnet: torchvision's ResNet-18, 34 and 50, with its parameter names.
//
// He et al., "Deep Residual Learning for Image Recognition" (2016), with the stride of a bottleneck in its convolution
// of 3 × 3.
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "runner/model/convolution.h"
#include "runner/model/model_def.h"
#include "runner/model/norms.h"

namespace runner::nn {
namespace {

namespace ops = backends::ops;
using backends::Pooling;

// A convolution without bias; weights from N(0, 2 / (out · k²)), as He et al. (2015) for relu.
ModulePtr square_conv(int64_t in, int64_t out, int64_t kernel, int64_t stride) {
  const double fan_out = static_cast<double>(out * kernel * kernel);
  return conv({.in = in,
               .out = out,
               .kernel = {kernel, kernel},
               .stride = {stride, stride},
               .padding = {kernel / 2, kernel / 2},
               .bias = false,
               .weight = Initialiser{Initialiser::Kind::kNormal, std::sqrt(2 / fan_out)}});
}

// relu(F(x) + x), where F are convolutions with norms; x is projected if its size changes.
class ResidualBlock : public Group {
 public:
  // Basic: two convolutions of 3 × 3. Bottleneck: 1 × 1, 3 × 3 and 1 × 1 with four times the channels.
  ResidualBlock(int64_t in, int64_t width, int64_t stride, bool is_bottleneck, const BatchNormOptions& norms) {
    const int64_t out = is_bottleneck ? 4 * width : width;
    if (is_bottleneck) {
      add(1, in, width, 1, 1, norms);
      add(2, width, width, 3, stride, norms);
      add(3, width, out, 1, 1, norms);
    } else {
      add(1, in, width, 3, stride, norms);
      add(2, width, width, 3, 1, norms);
    }
    if (stride != 1 || in != out)
      downsample_ = member("downsample", sequential({square_conv(in, out, 1, stride), batch_norm(out, 2, norms)}));
  }

  Value record(ForwardContext& context, Value x) const override {
    Value y = x;
    for (size_t i = 0; i < convs_.size(); ++i) {
      if (i > 0) y = ops::relu(y);
      y = norms_[i]->forward(context, convs_[i]->forward(context, y));
    }
    const Value skipped = downsample_ ? downsample_->forward(context, x) : x;
    return ops::relu(ops::add(y, skipped));
  }

 private:
  void add(int number, int64_t in, int64_t out, int64_t kernel, int64_t stride, const BatchNormOptions& norms) {
    convs_.push_back(member(fmt::format("conv{}", number), square_conv(in, out, kernel, stride)));
    norms_.push_back(member(fmt::format("bn{}", number), batch_norm(out, 2, norms)));
  }

  std::vector<ModulePtr> convs_, norms_;
  ModulePtr downsample_;
};

struct ResnetSizes {
  std::array<int, 4> blocks;
  bool is_bottleneck;
};
ResnetSizes sizes_of(schema::ResnetDepth depth) {
  switch (depth) {
    case schema::ResnetDepth::k18: return {{2, 2, 2, 2}, false};
    case schema::ResnetDepth::k34: return {{3, 4, 6, 3}, false};
    case schema::ResnetDepth::k50: return {{3, 4, 6, 3}, true};
  }
  RUN_ASSERT(false);
}

class Resnet : public Group {
 public:
  // `channels`: of the images.
  Resnet(const schema::ModelSpec& spec, int64_t channels, int64_t outputs)
      : has_stem_pool_(spec.stem == schema::ResnetStem::kImagenet),
        conv_(member("conv1", square_conv(channels, kWidth, has_stem_pool_ ? 7 : 3, has_stem_pool_ ? 2 : 1))),
        norm_(member("bn1", batch_norm(kWidth, 2, BatchNormOptions::of(spec.batch_norm)))) {
    const BatchNormOptions norms = BatchNormOptions::of(spec.batch_norm);
    const ResnetSizes sizes = sizes_of(spec.depth);
    int64_t in = kWidth;
    for (int layer = 0; layer < 4; ++layer) {
      const int64_t width = kWidth << layer;
      std::vector<ModulePtr> blocks;
      for (int i = 0; i < sizes.blocks[static_cast<size_t>(layer)]; ++i) {
        blocks.push_back(
            std::make_shared<ResidualBlock>(in, width, layer > 0 && i == 0 ? 2 : 1, sizes.is_bottleneck, norms));
        in = sizes.is_bottleneck ? 4 * width : width;
      }
      layers_.push_back(member(fmt::format("layer{}", layer + 1), sequential(std::move(blocks))));
    }
    output_ = member("fc", linear(in, outputs));
  }

  Value record(ForwardContext& context, Value x) const override {
    Value y = ops::relu(norm_->forward(context, conv_->forward(context, with_channels(x))));
    const Pooling pool{.size = 3, .stride = 2, .padding = 1};
    if (has_stem_pool_) y = ops::max_pool(y, std::array{pool, pool});
    for (const ModulePtr& layer : layers_) y = layer->forward(context, y);
    constexpr int64_t kSpatial[] = {2, 3};
    return output_->forward(context, ops::mean(y, kSpatial));
  }

 private:
  static constexpr int64_t kWidth = 64;

  const bool has_stem_pool_;
  ModulePtr conv_, norm_;
  std::vector<ModulePtr> layers_;
  ModulePtr output_;
};

}  // namespace

const ModelDef kResnetModel{
    .type = schema::ModelType::kResnet,
    .inputs = kImages,
    .check = kNoCheck,
    .check_labels = kNoCheck,
    .build = [](const schema::ModelSpec& spec, const data::Encoding& data) -> ModulePtr {
      const int64_t channels = data.feature_shape.rank() == 3 ? data.feature_shape[0] : 1;
      return std::make_shared<Resnet>(spec, channels, data.outputs);
    },
    .transformer = kNoTransformer,
    .output_layer = "fc.*",
    .pretrained = kNotPretrained,
};

}  // namespace runner::nn
