// Arrays of images and the binary files of CIFAR: order of the axes, labels, recognition by size, statistics of
// channels.
#include <optional>
#include <utility>

#include "runner/data/data_format.h"
#include "runner/data/storage.h"
#include "tests/data/image_fixture.h"

namespace runner::data {
namespace {

using schema::CifarLabel;
using schema::DataFormat;
using Values = LargeArray<float>;

class ImageArrays : public ImageFixture {
 protected:
  schema::DataSpec npy_spec(const std::vector<int64_t>& shape) {
    schema::DataSpec spec;
    spec.train = file_spec(DataFormat::kNpy, write("x.npy", npy_bytes(shape)), write("y.npy", npy_bytes({shape[0]})));
    return spec;
  }
  std::string error_of(const schema::DataSpec& spec) {
    return message_of([&] { load(spec, 0); });
  }
  static schema::DataSpec cifar(const std::string& file, std::optional<int64_t> classes = {},
                                CifarLabel label = CifarLabel::kFine) {
    schema::DataSpec spec;
    spec.train.format = DataFormat::kCifar;
    spec.train.path = file;
    spec.train.classes = classes;
    spec.train.cifar_label = label;
    return spec;
  }
  // Records with `labels` bytes: 1, 0 in the first, 2, 1 in the second, …, and the bytes of the images counting up.
  static std::string records(int count, size_t labels) {
    std::string bytes;
    for (int i = 0; i < count; ++i) {
      const std::string all = {static_cast<char>(i + 1), static_cast<char>(i)};
      bytes += all.substr(2 - labels) + counting_bytes(3072);
    }
    return bytes;
  }
};

// N, H, W, C is transposed, not reshaped: value (h, w, c) is at (c, h, w).
TEST_F(ImageArrays, ChannelsLastBecomeChannelsFirst) {
  schema::DataSpec spec = npy_spec({2, 4, 5, 3});
  spec.train.layout = schema::ImageLayout::kNhwc;
  const Data data = load(spec, 0);
  EXPECT_EQ(data.train.feature_shape(), (backends::Shape{3, 4, 5}));
  const Values values = features_of(data.train);
  for (int64_t i = 0; i < 120; ++i) {
    const int64_t n = i / 60, c = i / 20 % 3, h = i / 5 % 4, w = i % 5;
    EXPECT_EQ(values[static_cast<size_t>(i)], static_cast<float>(n * 60 + (h * 5 + w) * 3 + c));
  }
  spec.train.layout = schema::ImageLayout::kNchw;
  EXPECT_EQ(load(spec, 0).train.feature_shape(), (backends::Shape{4, 5, 3}));
}

TEST_F(ImageArrays, TheLayoutNeedsThreeAxes) {
  schema::DataSpec spec = npy_spec({2, 4, 5});
  spec.train.layout = schema::ImageLayout::kNhwc;
  EXPECT_EQ(error_of(spec), "x.npy: layout nhwc needs samples (H, W, C), got (4, 5)");
}

TEST_F(ImageArrays, WarnsOfChannelsLast) {
  const Data data = load(npy_spec({3, 10, 12, 3}), 0);
  ASSERT_FALSE(data.warnings.empty());
  EXPECT_EQ(data.warnings.back(),
            "data.train: samples (10, 12, 3) are read as 10 channels of 12 x 3; if they are 10 x 12 pixels of 3 "
            "channels, set layout: nhwc");
}

// EMNIST: transposed images, and letters from 1 to 26 without a class 0.
TEST_F(ImageArrays, ReadsTransposedLetters) {
  std::string labels;
  for (int i = 0; i < 52; ++i) labels += static_cast<char>(1 + i % 26);
  schema::DataSpec spec;
  spec.train = file_spec(DataFormat::kIdx, write("x", idx_bytes({52, 2, 3}, counting_bytes(52 * 6))),
                         write("y", idx_bytes({52}, labels)));
  spec.train.transpose = true;
  const Data data = load(spec, 0, LabelsAs::kClasses);
  EXPECT_EQ(data.train.feature_shape(), (backends::Shape{3, 2}));
  EXPECT_EQ(data.encoding.outputs, 26);
  EXPECT_EQ(data.encoding.classes().front(), "1");
  const Values values = features_of(data.train);
  EXPECT_EQ(Values(values.begin(), values.begin() + 6), (Values{0, 3, 1, 4, 2, 5}));
  const LargeArray<int64_t> classes = classes_of(data.train);
  EXPECT_EQ(classes[0], 0);
  EXPECT_EQ(classes[25], 25);

  spec.train = npy_spec({2, 4, 5, 3}).train;
  spec.train.transpose = true;
  EXPECT_EQ(error_of(spec), "x.npy: transpose needs samples (H, W), got (4, 5, 3)");
}

// Pixel (0, 0) of the three channels is in bytes 1, 1025 and 2049 of a record of 3073.
TEST_F(ImageArrays, ReadsCifar10) {
  const std::string bytes = records(3, 1);
  const Data data = load(cifar(write("data.bin", bytes)), 0);
  EXPECT_EQ(data.train.feature_shape(), (backends::Shape{3, 32, 32}));
  EXPECT_EQ(data.encoding.outputs, 3);
  EXPECT_EQ(classes_of(data.train), (LargeArray<int64_t>{0, 1, 2}));
  const Values values = features_of(data.train);
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t record = i / 3072, at = record * 3073 + 1 + i % 3072;
    ASSERT_EQ(values[i], static_cast<float>(static_cast<uint8_t>(bytes[at])) / 255);
  }
}

TEST_F(ImageArrays, ReadsCifar100WithEitherLabel) {
  const std::string file = write("train.bin", records(2, 2));
  EXPECT_EQ(load(cifar(file), 0).encoding.classes(), (std::vector<std::string>{"0", "1"}));  // fine
  EXPECT_EQ(load(cifar(file, {}, CifarLabel::kCoarse), 0).encoding.classes(), (std::vector<std::string>{"1", "2"}));
  EXPECT_EQ(error_of(cifar(write("ten.bin", records(2, 1)), {}, CifarLabel::kCoarse)),
            "CIFAR-10 has no coarse labels; remove label: coarse, or read CIFAR-100");
}

TEST_F(ImageArrays, ReadsSeveralCifarFiles) {
  write("data_batch_1.bin", records(2, 1));
  write("data_batch_2.bin", gzip(records(3, 1)));
  const Data data = load(cifar(path("data_batch_*.bin")), 0);
  EXPECT_EQ(data.train.size(), 5);
  EXPECT_EQ(data.files.size(), 2u);
  write("data_batch_3.bin", records(1, 2));
  EXPECT_EQ(error_of(cifar(path("data_batch_*.bin"))),
            "data_batch_1.bin and data_batch_3.bin: one has records of CIFAR-10, the other of CIFAR-100");
}

TEST_F(ImageArrays, RecognisesCifarBySizeOrAsksForClasses) {
  EXPECT_EQ(error_of(cifar(write("x.bin", std::string(3072, 0)))),
            "x.bin: 3072 bytes, expected records of 3073 bytes as CIFAR-10 has, or of 3074 as CIFAR-100 has");
  EXPECT_EQ(error_of(cifar(write("empty.bin", ""))),
            "empty.bin: 0 bytes, expected records of 3073 bytes as CIFAR-10 has, or of 3074 as CIFAR-100 has");
  const std::string both = write("both.bin", std::string(size_t{3073} * 3074, 0));
  EXPECT_EQ(error_of(cifar(both)),
            "both.bin: 9446402 bytes can be records of CIFAR-10 or of CIFAR-100; write classes: 10 or classes: 100");
  EXPECT_EQ(load(cifar(both, 10), 0).train.size(), 3074);
  EXPECT_EQ(load(cifar(both, 100), 0).train.size(), 3073);
  EXPECT_EQ(error_of(cifar(both, 20)), "classes of format cifar is 20, expected 10 or 100");
  EXPECT_EQ(error_of(cifar(write("ten.bin", records(1, 1)), 100)),
            "ten.bin: 3073 bytes, expected records of 3074 bytes, as CIFAR-100 has");
  EXPECT_EQ(error_of(cifar(write("ten.bin", std::string(1, 10) + std::string(3072, 0)))),
            "ten.bin: record 0: label 10, expected 0 to 9; is it CIFAR-10?");
}

// Files that do not exist yet: what the recipe says is checked like files.
TEST_F(ImageArrays, PlansCifarWithoutFiles) {
  const auto planned = [](std::optional<int64_t> classes, CifarLabel label = CifarLabel::kFine) {
    schema::DataSpec spec = cifar("none.bin", classes, label);
    spec.train.planned_samples = 250;
    return spec;
  };
  for (const auto& [spec, classes] :
       {std::pair(planned(10), 10), {planned(100), 100}, {planned(100, CifarLabel::kCoarse), 20}}) {
    const Data data = load(spec, 0);
    EXPECT_EQ(data.train.size(), 250);
    EXPECT_EQ(data.train.feature_shape(), (backends::Shape{3, 32, 32}));
    EXPECT_EQ(data.encoding.outputs, classes);
    EXPECT_EQ(data.warnings.front(), "data.train: none.bin does not exist; planned for 250 samples by planned_samples");
  }
  EXPECT_EQ(error_of(planned(20)), "classes of format cifar is 20, expected 10 or 100");
  EXPECT_EQ(error_of(planned(10, CifarLabel::kCoarse)),
            "CIFAR-10 has no coarse labels; remove label: coarse, or read CIFAR-100");
  EXPECT_EQ(message_of([&] { load(planned(10), 0, LabelsAs::kTargets); }),
            "none.bin: the labels are classes, but the loss needs numbers; use train.loss: cross_entropy");
}

// Byte 128 with mean 0.5 and deviation 0.25 is (128 / 255 - 0.5) / 0.25 = 0.0078431.
TEST_F(ImageArrays, BytesAreScaledBeforeTheyAreNormalised) {
  std::string record(3073, static_cast<char>(128));
  record[0] = 3;
  schema::DataSpec spec = cifar(write("x.bin", record));
  spec.normalize = schema::Normalize::kChannels;
  spec.mean = {0.5, 0.5, 0.25};
  spec.std = {0.25, 0.5, 0.25};
  const Data data = load(spec, 0);
  const Values values = features_of(data.train);
  EXPECT_NEAR(values[0], 0.0078431, 1e-6);
  EXPECT_NEAR(values[1024], 0.0039216, 1e-6);
  EXPECT_NEAR(values[2048], 1.0078431, 1e-6);
  EXPECT_EQ(data.encoding.center, (std::vector<double>{0.5, 0.5, 0.25}));
  EXPECT_EQ(Encoding::from_json(data.encoding.to_json()), data.encoding);
  spec.mean = spec.std = {0.5};
  EXPECT_EQ(
      error_of(spec),
      "data.mean has 1 number and data.std 1, but the samples (3, 32, 32) have 3 channels; give one number for each "
      "channel");
}

TEST_F(ImageArrays, ChannelStatisticsAreThoseOfTheTrainingPart) {
  schema::DataSpec spec = npy_spec({20, 2, 4, 5});
  spec.train.scale = 0.5;
  spec.split = schema::SplitSpec{.eval = 0.3};
  const Values raw = features_of(load(spec, 1).train);
  spec.normalize = schema::Normalize::kChannels;
  const Data data = load(spec, 1);
  ASSERT_EQ(data.encoding.center.size(), 2u);
  for (size_t c = 0; c < 2; ++c) {
    Values pixels;
    for (size_t i = 0; i < raw.size(); ++i)
      if (i / 20 % 2 == c) pixels.push_back(raw[i]);
    const auto [mean, deviation] = moments(pixels);
    EXPECT_NEAR(data.encoding.center[c], static_cast<double>(mean), 1e-6);
    EXPECT_NEAR(data.encoding.spread[c], static_cast<double>(deviation), 1e-6);
  }
  const Values after = features_of(data.train);
  for (size_t i = 0; i < after.size(); ++i) {
    const size_t c = i / 20 % 2;
    EXPECT_EQ(after[i], (raw[i] - static_cast<float>(data.encoding.center[c])) *
                            (1 / static_cast<float>(data.encoding.spread[c])));
  }
}

TEST_F(ImageArrays, GreyImagesHaveOneChannelAndRowsHaveNone) {
  schema::DataSpec spec;
  spec.train = numbered_images(4, 3, 5);
  spec.normalize = schema::Normalize::kChannels;
  EXPECT_EQ(load(spec, 0).encoding.center.size(), 1u);
  spec.train = npy_spec({4, 30}).train;
  EXPECT_EQ(error_of(spec),
            "data.normalize: channels needs features (H, W) or (C, H, W), got (30); use standard, or min_max");
}

}  // namespace
}  // namespace runner::data
