// Folders of images: classes, sizes, damaged files, caching, normalisation, and reading with the encoding of a run.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <set>
#include <utility>

#include <malloc.h>

#include "runner/data/data_format.h"
#include "runner/data/image_files.h"
#include "runner/data/loader.h"
#include "runner/data/storage.h"
#include "runner/formats/reading_watch.h"
#include "tests/data/image_fixture.h"
#include "tests/support/allocations.h"
#include "tests/support/paths.h"
#include "tests/support/sanitizers.h"

namespace runner::data {
namespace {

using schema::DataFormat;
using Strings = std::vector<std::string>;

class ImagesTest : public ImageFixture {
 protected:
  schema::DatasetSpec folder_spec(const std::string& name) {
    schema::DatasetSpec spec;
    spec.format = DataFormat::kImages;
    spec.path = path(name);
    return spec;
  }
  // Three images of class 10, two of class 9, all of 4 x 6 pixels.
  schema::DataSpec two_classes(const std::string& name = "photos") {
    write_image(name + "/9/b.png", 4, 6, {10, 20, 30});
    write_image(name + "/9/a.PNG", 4, 6, {40, 50, 60});
    write_image(name + "/10/a.png", 4, 6, {70, 80, 90});
    write_image(name + "/10/deep/b.png", 4, 6, {100, 110, 120});
    write_image(name + "/10/c.jpeg", 4, 6, {130, 140, 150});  // a PNG by its first bytes
    schema::DataSpec spec;
    spec.train = folder_spec(name);
    return spec;
  }
  std::string error_of(const schema::DataSpec& spec) {
    return message_of([&] { load(spec, 0); });
  }
};

TEST_F(ImagesTest, ClassesAreFoldersSortedByBytes) {
  const Data data = load(two_classes(), 0);
  EXPECT_EQ(data.encoding.classes(), (Strings{"10", "9"}));
  EXPECT_EQ(data.train.feature_shape(), (backends::Shape{3, 4, 6}));
  EXPECT_EQ(classes_of(data.train), (LargeArray<int64_t>{0, 0, 0, 1, 1}));
  EXPECT_EQ(data.class_counts, (std::vector<int64_t>{3, 2}));
  const LargeArray<float> features = features_of(data.train);
  const std::array<float, 3> first{70, 80, 90};
  for (size_t i = 0; i < 72; ++i) EXPECT_EQ(features[i], (i % 24 == 0 ? 255 : first[i / 24]) / 255);
  EXPECT_EQ(Encoding::from_json(data.encoding.to_json()), data.encoding);
}

TEST_F(ImagesTest, CountsWhatItLeavesOut) {
  schema::DataSpec spec = two_classes();
  write("photos/Thumbs.db", "x");
  write("photos/9/notes.txt", "x");
  write("photos/readme.txt", "x");
  std::filesystem::create_directories(path("photos/.ipynb_checkpoints"));
  write_image("photos/9/.hidden.png", 1, 1, {});
  EXPECT_EQ(load(spec, 0).train.storage().contents,
            "5 PNG; left out: 3 hidden, 1 with another ending, 1 outside of the class folders; decoded once");
}

TEST_F(ImagesTest, RefusesDifferentSizesUnlessTheyAreResized) {
  schema::DataSpec spec = two_classes();
  write_image("photos/9/c.png", 8, 6, {1, 2, 3});
  EXPECT_EQ(error_of(spec),
            "images have different sizes: photos/10/a.png has 4 x 6 pixels (height x width), photos/9/c.png has 8 x 6; "
            "set data.resize, and data.center_crop if it is one number");
  spec.resize = {3};
  EXPECT_EQ(error_of(spec),
            "images have different sizes: photos/10/a.png has 3 x 4 pixels (height x width), photos/9/c.png has 4 x 3; "
            "set data.resize, and data.center_crop if it is one number");
  spec.center_crop = {3};
  EXPECT_EQ(load(spec, 0).train.feature_shape(), (backends::Shape{3, 3, 3}));
  spec.center_crop = {2, 3};
  EXPECT_EQ(load(spec, 0).train.feature_shape(), (backends::Shape{3, 2, 3}));
  spec.resize = {5, 7};
  spec.center_crop = {};
  EXPECT_EQ(load(spec, 0).train.feature_shape(), (backends::Shape{3, 5, 7}));
}

TEST_F(ImagesTest, NamesADamagedImageOrLeavesItOut) {
  schema::DataSpec spec = two_classes();
  const Fingerprint whole = load(spec, 0).train.fingerprint();
  write("photos/9/bad.png", "no image");
  EXPECT_EQ(error_of(spec).substr(0, 40), "photos/9/bad.png is no PNG or JPEG image");
  spec.damaged = schema::Damaged::kSkip;
  const Data data = load(spec, 0);
  EXPECT_EQ(data.train.fingerprint(), whole);
  EXPECT_EQ(classes_of(data.train), (LargeArray<int64_t>{0, 0, 0, 1, 1}));
  ASSERT_EQ(data.warnings.size(), 1u);
  EXPECT_EQ(data.warnings[0].substr(0, 54), "data.train: 1 damaged image is left out: " + path("").substr(0, 13));
  EXPECT_TRUE(data.train.storage().contents.starts_with("5 PNG; left out: 1 damaged;"));
  EXPECT_TRUE(data.encoding.images->skips_damaged);
}

// A truncated image before others that are no images: the first of them is reported, although it takes longest.
TEST_F(ImagesTest, TheFirstDamagedImageIsReportedForAnyNumberOfThreads) {
  Strings paths;
  for (int i = 0; i < 40; ++i) {
    const std::string name = fmt::format("photos/{:02}.png", i);
    paths.push_back(i < 7 ? write_image(name, 8, 8, {1, 2, 3}) : write(name, "no image"));
  }
  const std::string whole = support::read_text(write_image("photos/07.png", 2000, 2000, {1, 2, 3}));
  write("photos/07.png", whole.substr(0, whole.size() - 20));
  const auto message = [&](int threads) {
    return message_of([&] { ImageFiles("photos", paths, {.threads = threads}); });
  };
  const std::string first = message(1);
  EXPECT_TRUE(first.starts_with("photos/07.png: ")) << first;
  for (const int threads : {2, 8})
    for (int round = 0; round < 20; ++round) ASSERT_EQ(message(threads), first) << threads;
}

TEST_F(ImagesTest, DamagedImagesAreTheSameForAnyNumberOfThreads) {
  Strings paths;
  for (int i = 0; i < 40; ++i) {
    const std::string name = fmt::format("photos/{:02}.png", i);
    paths.push_back(i % 3 == 1 ? write(name, "no image") : write_image(name, 8, 8, {1, 2, 3}));
  }
  for (const int threads : {1, 2, 8}) {
    const ImageFiles files("photos", paths, {.threads = threads, .cache_bytes = 100'000, .stops_at_damage = false});
    EXPECT_TRUE(files.is_cached());
    for (int64_t row = 0; row < files.samples(); ++row) EXPECT_EQ(files.damage(row).empty(), row % 3 != 1) << row;
  }
}

TEST_F(ImagesTest, ReportsIfNoImageIsLeft) {
  schema::DataSpec spec;
  write("photos/a/bad.png", "no image");
  spec.train = folder_spec("photos");
  spec.damaged = schema::Damaged::kSkip;
  EXPECT_TRUE(error_of(spec).starts_with("photos: no image can be decoded; the first: photos/a/bad.png is no PNG"));
}

TEST_F(ImagesTest, EvaluationHasTheSameClasses) {
  schema::DataSpec spec = two_classes();
  write_image("other/10/a.png", 4, 6, {1, 2, 3});
  write_image("other/nine/a.png", 4, 6, {1, 2, 3});
  spec.eval = folder_spec("other");
  EXPECT_EQ(error_of(spec),
            "data.train and data.eval have different class folders: '9' (only in data.train), 'nine' (only in "
            "data.eval)");
  std::filesystem::rename(path("other/nine"), path("other/9"));
  EXPECT_EQ(load(spec, 0).eval->size(), 2);
}

// Decoding again when samples are read gives the same samples, fingerprints and statistics as keeping the pixels.
TEST_F(ImagesTest, CachingChangesNothing) {
  two_classes();
  Strings paths{path("photos/9/a.PNG"), path("photos/9/b.png"), path("photos/10/c.jpeg")};
  const ImageReading reading{.resize = {3}, .center_crop = {3, 2}};
  for (const int threads : {1, 4}) {
    const ImageFiles kept("photos", paths, {.reading = reading, .threads = threads, .cache_bytes = 1000});
    const ImageFiles again("photos", paths, {.reading = reading, .threads = threads, .cache_bytes = 10});
    ASSERT_TRUE(kept.is_cached() && !again.is_cached());
    for (int64_t row = 0; row < 3; ++row) {
      std::vector<float> a(18), b(18);
      kept.read(row, a);
      again.read(row, b);
      EXPECT_EQ(a, b);
      double sum = 0;
      for (size_t i = 6; i < 12; ++i) sum += double{a[i]} * 255;
      EXPECT_NEAR(static_cast<double>(again.channel_sums(row)[1].bytes), sum, 1e-3);
    }
    Sha256 one, other;
    kept.hash({}, one);
    again.hash({}, other);
    EXPECT_EQ(one.finish(), other.finish());
  }
}

size_t bytes_in_use() {
  const struct mallinfo2 info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

// Bytes in use whenever the watch below asks for the available memory: after each image, once there is much to watch.
std::vector<size_t> seen_bytes;

size_t note_bytes() {
  seen_bytes.push_back(bytes_in_use());
  return seen_bytes.size() == 1 ? 0 : SIZE_MAX / 2;
}

// 24 images of 3 MB: after the 10th, the cache of 30 MB is full, and no pixels are kept any more.
TEST_F(ImagesTest, AFullCacheFreesItsPixels) {
  if (support::kSanitized) GTEST_SKIP() << "sanitizers have an allocator of their own";
  Strings paths;
  for (int i = 0; i < 24; ++i) paths.push_back(write_image(fmt::format("photos/{:02}.png", i), 1000, 1000, {1, 2, 3}));
  ::malloc_trim(0);  // the watch measures what the process grows by
  const size_t before = bytes_in_use();
  seen_bytes.clear();
  const formats::ReadingWatch watch(std::chrono::hours(1), note_bytes);
  const ImageFiles files("photos", paths, {.cache_bytes = 30'000'000});
  EXPECT_FALSE(files.is_cached());
  ASSERT_FALSE(seen_bytes.empty());
  EXPECT_GT(std::ranges::max(seen_bytes), before + 20'000'000) << "pixels were kept at first";
  EXPECT_LE(std::ranges::count_if(seen_bytes, [&](size_t bytes) { return bytes > before + 10'000'000; }), 10);
}

// Resizing a kept image of 3 MB needs much less.
TEST_F(ImagesTest, ReadingCopiesNoKeptImage) {
  const Strings paths{write_image("photos/a.png", 1000, 1000, {1, 2, 3})};
  const ImageFiles files("photos", paths,
                         {.reading = {.resize = {10, 10}}, .kept = ImageStage::kDecoded, .cache_bytes = 4'000'000});
  ASSERT_TRUE(files.is_cached());
  std::vector<float> out(300);
  support::take_largest_allocation();
  files.read(0, out);
  EXPECT_LT(support::take_largest_allocation(), 1'000'000U);
}

TEST_F(ImagesTest, AFileThatChangesIsReported) {
  two_classes();
  const ImageFiles files("photos", {path("photos/9/a.PNG")}, {});
  std::vector<float> out(72);
  write_image("photos/9/a.PNG", 4, 6, {1, 1, 1});
  EXPECT_EQ(message_of([&] { files.read(0, out); }),
            "photos/9/a.PNG has changed since it was loaded; do not change images while they are used");
  std::filesystem::remove(path("photos/9/a.PNG"));
  EXPECT_EQ(message_of([&] { files.read(0, out); }),
            "photos/9/a.PNG has changed since it was loaded: cannot read the image photos/9/a.PNG: No such file or "
            "directory");
}

// Sums over bytes are exact: the same as the mean over all pixels of the training part in long double.
TEST_F(ImagesTest, NormalisesByChannel) {
  schema::DataSpec spec = two_classes();
  const LargeArray<float> raw = features_of(load(spec, 0).train);
  spec.normalize = schema::Normalize::kChannels;
  const Data data = load(spec, 0);
  ASSERT_EQ(data.encoding.center.size(), 3u);
  const LargeArray<float> after = features_of(data.train);
  for (size_t c = 0; c < 3; ++c) {
    LargeArray<float> pixels, normalized;
    for (size_t i = 0; i < raw.size(); ++i)
      if (i / 24 % 3 == c) {
        pixels.push_back(raw[i]);
        normalized.push_back(after[i]);
      }
    const auto [mean, deviation] = moments(pixels);
    EXPECT_NEAR(data.encoding.center[c], static_cast<double>(mean), 1e-7);
    EXPECT_NEAR(data.encoding.spread[c], static_cast<double>(deviation), 1e-7);
    const auto [zero, one] = moments(normalized);
    EXPECT_NEAR(static_cast<double>(zero), 0, 1e-6);
    EXPECT_NEAR(static_cast<double>(one), 1, 1e-6);
  }
  EXPECT_EQ(Encoding::from_json(data.encoding.to_json()), data.encoding);
}

TEST_F(ImagesTest, OtherFoldersAreReadAsTheTrainingData) {
  schema::DataSpec spec = two_classes();
  spec.resize = {2};
  spec.center_crop = {2};
  spec.normalize = schema::Normalize::kChannels;
  const Data data = load(spec, 0);
  write_image("more/9/x.png", 9, 3, {1, 2, 3});
  const Dataset eval = load_encoded(folder_spec("more"), data.encoding, 0, "more");
  EXPECT_EQ(eval.feature_shape(), (backends::Shape{3, 2, 2}));
  EXPECT_EQ(classes_of(eval), (LargeArray<int64_t>{1}));
  write_image("more/eleven/x.png", 9, 3, {1, 2, 3});
  EXPECT_EQ(message_of([&] { load_encoded(folder_spec("more"), data.encoding, 0, "more"); }).substr(0, 28),
            "more: unknown class 'eleven'");

  write("more/nine.png", "bad");
  const Dataset rows = load_encoded(folder_spec("more"), data.encoding, 0, "more", /*predicts=*/true);
  EXPECT_EQ(rows.size(), 3);
  ASSERT_EQ(rows.storage().rejected.size(), 1u);
  EXPECT_EQ(rows.storage().rejected[0].row, 2);
  EXPECT_EQ(load_encoded(folder_spec("more/9/x.png"), data.encoding, 0, "more", true).size(), 1);
  write("more/notes/x.txt", "x");
  EXPECT_EQ(message_of([&] { load_encoded(folder_spec("more/notes"), data.encoding, 0, "more", true); }),
            "more/notes: no file ends with .png, .jpg or .jpeg");
  EXPECT_EQ(message_of([&] { load_encoded(folder_spec("nothing"), data.encoding, 0, "more", true); }),
            "nothing: no image can be decoded; the first: cannot read the image nothing: No such file or directory");
}

TEST_F(ImagesTest, RowsToPredictHaveTheFilesOfTheFolderInOrder) {
  const Data data = load(two_classes(), 0);
  const Dataset rows = load_encoded(folder_spec("photos"), data.encoding, 0, "photos", /*predicts=*/true);
  Strings files;
  for (int64_t id = 0; id < rows.size(); ++id) files.push_back(rows.storage().image_files->path(rows.row(id)));
  const Strings expected{path("photos/10/a.png"), path("photos/10/c.jpeg"), path("photos/10/deep/b.png"),
                         path("photos/9/a.PNG"), path("photos/9/b.png")};
  EXPECT_EQ(files, expected);
}

// ---- random parts of files ------------------------------------------------------------------------------------------

schema::AugmentStep random_crop(std::vector<int64_t> size) {
  schema::AugmentStep step;
  step.crop = std::move(size);
  return step;
}
schema::AugmentStep random_resized_crop(std::vector<int64_t> size) {
  schema::AugmentStep step;
  step.random_resized_crop = std::move(size);
  return step;
}

class CutTest : public ImagesTest {
 protected:
  // An image whose red is 10 y + x, of 6 x 9 pixels.
  schema::DataSpec numbered() {
    images::Image image = images::black_image(6, 9);
    for (int64_t y = 0; y < 6; ++y)
      for (int64_t x = 0; x < 9; ++x) *image.pixel(y, x) = static_cast<uint8_t>(10 * y + x);
    std::filesystem::create_directories(path("cuts/a"));
    write("cuts/a/one.png", images::png_bytes(image));
    write("cuts/a/two.png", images::png_bytes(image));
    schema::DataSpec spec;
    spec.train = folder_spec("cuts");
    spec.center_crop = {4};
    return spec;
  }
  static std::vector<float> augmented(const Data& data, int64_t epoch, int64_t id = 0) {
    std::vector<float> features(48);
    Augmenter::Scratch scratch;
    data.augmenter->read(data.train, {.seed = 3, .epoch = epoch}, id, features, scratch);
    return features;
  }
  // The red of the first pixel.
  static int64_t corner(const std::vector<float>& features) { return std::lround(features[0] * 255); }
};

TEST_F(CutTest, ACropWithoutPaddingHasAllPlacesOfTheFile) {
  schema::DataSpec spec = numbered();
  spec.train.augment = {random_crop({4})};
  const Data data = load(spec, 0);
  std::set<int64_t> corners;
  for (int64_t epoch = 0; epoch < 400; ++epoch) {
    const std::vector<float> now = augmented(data, epoch);
    corners.insert(corner(now));
    for (int64_t i = 0; i < 16; ++i)
      ASSERT_EQ(std::lround(now[static_cast<size_t>(i)] * 255), corner(now) + 10 * (i / 4) + i % 4);
  }
  std::set<int64_t> expected;
  for (int64_t y = 0; y <= 2; ++y)
    for (int64_t x = 0; x <= 5; ++x) expected.insert(10 * y + x);
  EXPECT_EQ(corners, expected);

  // Evaluations have the middle, as without augmentation.
  std::vector<float> plain(48), middle(48);
  data.train.read_features(0, plain);
  spec.train.augment = {};
  load(spec, 0).train.read_features(0, middle);
  EXPECT_EQ(plain, middle);
  EXPECT_EQ(corner(plain), 12);  // half a pixel is rounded to the even column
}

// The part has the size of the file if scale and ratio say so; then it is resized as data.resize does.
TEST_F(CutTest, ARandomResizedCropIsResizedToTheSample) {
  schema::DataSpec spec = numbered();
  spec.train.augment = {random_resized_crop({4})};
  spec.train.augment[0].scale = {1, 1};
  spec.train.augment[0].ratio = {1.5, 1.5};
  const Data data = load(spec, 0);
  spec.train.augment = {};
  spec.resize = {4, 4};
  std::vector<float> resized(48);
  load(spec, 0).train.read_features(0, resized);
  EXPECT_EQ(augmented(data, 0), resized);
  EXPECT_EQ(augmented(data, 1), resized);

  spec.train.augment = {random_resized_crop({4})};
  const Data random = load(spec, 0);
  std::set<std::vector<float>> seen;
  for (int64_t epoch = 0; epoch < 40; ++epoch) seen.insert(augmented(random, epoch));
  EXPECT_GT(seen.size(), 25u);
  EXPECT_NE(augmented(random, 0, 0), augmented(random, 0, 1)) << "each sample draws its own";
}

TEST_F(CutTest, CachingChangesNoPart) {
  numbered();
  const Strings paths{path("cuts/a/one.png")};
  const ImageReading reading{.resize = {5}, .center_crop = {4}};
  for (const ImageStage stage : {ImageStage::kResized, ImageStage::kDecoded}) {
    const ImageCut cut{.from = stage, .scale = {0.2, 1}, .ratio = {0.5, 2}};
    const ImageFiles kept("cuts", paths, {.reading = reading, .kept = stage, .cache_bytes = 1000});
    const ImageFiles again("cuts", paths, {.reading = reading, .kept = stage, .cache_bytes = 10});
    const ImageFiles plain("cuts", paths, {.reading = reading});
    ASSERT_TRUE(kept.is_cached() && !again.is_cached());
    std::vector<float> a(48), b(48);
    for (uint64_t i = 0; i < 20; ++i) {
      RandomSequence one(1, Stream::kAugment, i), other(1, Stream::kAugment, i);
      kept.read_cut(0, cut, one, a);
      again.read_cut(0, cut, other, b);
      EXPECT_EQ(a, b);
    }
    plain.read(0, a);
    for (const ImageFiles* files : {&kept, &again}) {
      files->read(0, b);
      EXPECT_EQ(a, b);
      EXPECT_EQ(files->channel_sums(0)[0].bytes, plain.channel_sums(0)[0].bytes);
    }
  }
}

TEST_F(CutTest, RefusesWhatCannotBeCut) {
  schema::DataSpec spec = numbered();
  spec.resize = {5};
  write_image("cuts/a/flat.png", 20, 100, {1, 2, 3});
  spec.center_crop = {5, 7};
  spec.train.augment = {random_crop({5, 7})};
  EXPECT_EQ(load(spec, 0).train.size(), 3);
  write_image("cuts/a/tall.png", 100, 20, {1, 2, 3});
  EXPECT_EQ(
      error_of(spec),
      "cuts/a/tall.png has 25 x 5 pixels (height x width) before data.center_crop, but data.train.augment crops to "
      "5 x 7; set a larger data.resize");
  spec.train.augment = {random_resized_crop({5, 7})};
  EXPECT_EQ(load(spec, 0).train.size(), 4);
  spec.train.augment = {random_resized_crop({8})};
  EXPECT_EQ(error_of(spec),
            "data.train.augment[0].random_resized_crop: crops to 8 x 8, but the samples have 5 x 7 pixels, also in "
            "evaluations; write [5, 7], or change data.resize and data.center_crop");
}

TEST_F(ImagesTest, WarnsOfCorruptFiles) {
  two_classes();
  std::filesystem::copy(support::source_path("tests/images/files/early_end.jpg"), path("photos/9/z.jpg"));
  schema::DataSpec spec;
  spec.train = folder_spec("photos");
  spec.resize = {4, 6};
  const Data data = load(spec, 0);
  EXPECT_TRUE(data.train.storage().contents.starts_with("5 PNG, 1 JPEG; 1 with corrupt data"))
      << data.train.storage().contents;
  EXPECT_EQ(data.warnings, (Strings{"data.train: 1 JPEG file has corrupt data: the decoder has invented some of its "
                                    "pixels, as it does in Pillow; the first is " +
                                    path("photos/9/z.jpg")}));
}

TEST_F(ImagesTest, BatchesAreTheSameForAnyNumberOfThreads) {
  const Data data = load(two_classes(), 0);
  const DataPlan plan({.samples = 5, .batch_size = 2});
  const auto batches = [&](int64_t prefetch, int64_t threads) {
    Loader loader(data.train, plan, {.seed = 3, .prefetch = prefetch, .threads = threads});
    std::vector<float> all;
    for (int i = 0; i < 9; ++i) {
      const Batch& batch = loader.next();
      all.insert(all.end(), batch.features().begin(), batch.features().end());
    }
    return all;
  };
  const std::vector<float> one = batches(0, 1);
  EXPECT_EQ(batches(4, 1), one);
  EXPECT_EQ(batches(4, 4), one);
}

}  // namespace
}  // namespace runner::data
