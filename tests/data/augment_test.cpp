// Augmentation: the steps against torchvision's figures (tests/golden/augment.json) and plain loops, and that draws
// depend on the seed, the epoch and the sample only.
#include "runner/data/augment.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runner/data/loader.h"
#include "tests/data/image_fixture.h"
#include "tests/golden/golden.h"
#include "tests/support/allocations.h"
#include "tests/support/paths.h"

namespace runner::data {
namespace {

using schema::AugmentStep;
using schema::Flip;
using testing::Golden;
using Pixels = std::vector<float>;

class AugmentTest : public ImageFixture {
 protected:
  // `samples` images of bytes (1, 6, 5) of labels 0 to 3, as idx, whose pixels are different from each other.
  Data load_with(std::vector<AugmentStep> steps, int64_t samples = 24) {
    schema::DataSpec spec;
    spec.train = numbered_images(samples, 6, 5);
    spec.train.scale = 1.0 / 255;
    spec.train.augment = std::move(steps);
    return load(spec, 0);
  }
};

AugmentStep flip(Flip direction = Flip::kHorizontal) {
  AugmentStep step;
  step.flip = direction;
  return step;
}
AugmentStep crop(std::vector<int64_t> size, int64_t padding) {
  AugmentStep step;
  step.crop = std::move(size);
  step.padding = padding;
  return step;
}
AugmentStep rotate(double degrees) {
  AugmentStep step;
  step.rotate = degrees;
  return step;
}
AugmentStep color(double most) {
  AugmentStep step;
  step.color = most;
  return step;
}
AugmentStep cutout(int64_t side) {
  AugmentStep step;
  step.cutout = side;
  return step;
}
AugmentStep mixup(double alpha) {
  AugmentStep step;
  step.mixup = alpha;
  return step;
}

TEST(AugmentGolden, StepsAreThoseOfTorchvision) {
  std::map<std::string, int> seen;
  for (const Golden& item : Golden::load("augment.json").cases()) {
    SCOPED_TRACE(item.name());
    const testing::GoldenTensor before = item["image"].tensor(), after = item["output"].tensor();
    const ImageShape shape = *image_shape_of(before.shape);
    Pixels image = before.as<float>(), copy;
    const auto value = static_cast<float>(item["value"].number());
    const std::string kind = item.name().substr(0, item.name().find('/'));
    ++seen[kind];
    if (kind == "rotate") rotate_image(shape, value, image, copy);
    if (kind == "brightness") adjust_brightness(image, value);
    if (kind == "contrast") adjust_contrast(shape, value, image);
    if (kind == "saturation") adjust_saturation(shape, value, image);
    if (kind == "flip")
      flip_image(shape, item.name().ends_with("vertical") ? Flip::kVertical : Flip::kHorizontal, image);
    if (kind == "crop") shift_image(shape, item["top"].integer() - 2, item["left"].integer() - 2, image, copy);
    const Pixels expected = after.as<float>();
    for (size_t i = 0; i < image.size(); ++i) ASSERT_NEAR(image[i], expected[i], 2e-5) << i;
  }
  EXPECT_EQ(seen.size(), 6u);
}

// torchvision's RandomResizedCrop with the draws of seed 9, epoch 2 and the index of the row.
TEST(AugmentGolden, PartsAreThoseOfRandomResizedCrop) {
  for (const Golden& row : Golden::load("augment.json")["parts"].items()) {
    const std::vector<int64_t> size = row["image"].integers(), part = row["part"].integers();
    const std::vector<double> scale = row["scale"].numbers(), ratio = row["ratio"].numbers();
    const ImageCut cut{.from = ImageStage::kDecoded, .scale = {scale[0], scale[1]}, .ratio = {ratio[0], ratio[1]}};
    const SampleKey key{.seed = 9, .epoch = 2};
    RandomSequence random(key.seed, Stream::kAugment, key.index(row["index"].integer()));
    EXPECT_EQ(cut.draw({size[0], size[1]}, {8, 8}, random), (images::Box{part[0], part[1], part[2], part[3]}))
        << row["index"].integer();
  }
}

TEST(Augment, ShiftsByMoreThanTheImage) {
  const ImageShape shape{2, 3, 4};
  for (int64_t down = -5; down <= 5; ++down) {
    for (int64_t right = -6; right <= 6; ++right) {
      Pixels image(24), copy;
      std::iota(image.begin(), image.end(), 1.0f);
      const Pixels before = image;
      shift_image(shape, down, right, image, copy);
      for (int64_t i = 0; i < 24; ++i) {
        const int64_t c = i / 12, y = i / 4 % 3 + down, x = i % 4 + right;
        const bool is_inside = y >= 0 && y < 3 && x >= 0 && x < 4;
        ASSERT_EQ(image[static_cast<size_t>(i)], is_inside ? before[static_cast<size_t>(c * 12 + y * 4 + x)] : 0);
      }
    }
  }
}

TEST(Augment, CutsOutASquareThatEndsAtTheBorder) {
  const ImageShape shape{2, 5, 6};
  for (const int64_t side : {1, 2, 3, 4, 20}) {
    for (int64_t at = 0; at < 30; ++at) {
      Pixels image(60, 1);
      cut_out(shape, at / 6, at % 6, side, image);
      for (int64_t i = 0; i < 60; ++i) {
        const int64_t y = i / 6 % 5 - (at / 6 - side / 2), x = i % 6 - (at % 6 - side / 2);
        const bool is_cut = y >= 0 && y < side && x >= 0 && x < side;
        ASSERT_EQ(image[static_cast<size_t>(i)], is_cut ? 0 : 1);
      }
    }
  }
}

// Mean 1/2 and variance 1 / (4 (2 alpha + 1)).
TEST(Augment, DrawsWeightsOfTheBetaDistribution) {
  for (const double alpha : {0.05, 0.2, 1.0, 4.0}) {
    constexpr int kDraws = 40000;
    double sum = 0, squares = 0;
    RandomSequence random(7, Stream::kMixup, 1);
    for (int i = 0; i < kDraws; ++i) {
      const double value = draw_beta(alpha, random);
      ASSERT_TRUE(value >= 0 && value <= 1);
      sum += value;
      squares += (value - 0.5) * (value - 0.5);
    }
    EXPECT_NEAR(sum / kDraws, 0.5, 0.01) << alpha;
    EXPECT_NEAR(squares / kDraws, 1 / (4 * (2 * alpha + 1)), 0.004) << alpha;
  }
}

Pixels augmented(const Data& data, const SampleKey& key, int64_t id) {
  Pixels features(30);
  Augmenter::Scratch scratch;
  data.augmenter->read(data.train, key, id, features, scratch);
  return features;
}

Pixels plain(const Data& data, int64_t id) {
  Pixels features(30);
  data.train.read_features(id, features);
  return features;
}

// Each thread has its own memory for images.
TEST_F(AugmentTest, BatchesAllocateNothingAfterTheFirst) {
  const Data data = load_with({flip(), crop({6, 5}, 2), rotate(20), color(0.2), cutout(2), mixup(0.4)}, 200);
  const DataPlan plan({.samples = data.train.size(), .batch_size = 8});
  for (const int64_t threads : {0, 1, 2}) {
    Loader loader(
        data.train, plan,
        {.seed = 1, .prefetch = 4 * threads, .threads = std::max<int64_t>(threads, 1), .augmenter = data.augmenter});
    float sum = 0;
    const auto take = [&](int64_t epochs) {
      for (int64_t i = 0; i < epochs * plan.steps_per_epoch(); ++i) sum += loader.next().features()[0];
    };
    take(20);
    const int64_t allocated = support::allocations();
    take(20);
    EXPECT_EQ(support::allocations(), allocated) << threads;
    EXPECT_NE(sum, 0);
  }
}

TEST_F(AugmentTest, AFlipHappensInHalfOfTheEpochs) {
  const Data data = load_with({flip()});
  const Pixels before = plain(data, 3);
  Pixels mirrored = before;
  flip_image({1, 6, 5}, Flip::kHorizontal, mirrored);
  int flipped = 0;
  for (int64_t epoch = 0; epoch < 1000; ++epoch) {
    const Pixels now = augmented(data, {.seed = 1, .epoch = epoch}, 3);
    ASSERT_TRUE(now == before || now == mirrored);
    flipped += now == mirrored ? 1 : 0;
  }
  EXPECT_NEAR(flipped, 500, 60);
}

TEST_F(AugmentTest, ACropHasAllPlacesOfAZeroBorder) {
  const Data data = load_with({crop({6, 5}, 1)});
  std::set<Pixels> expected, seen;
  for (int64_t down = -1; down <= 1; ++down)
    for (int64_t right = -1; right <= 1; ++right) {
      Pixels image = plain(data, 5), copy;
      shift_image({1, 6, 5}, down, right, image, copy);
      expected.insert(image);
    }
  for (int64_t epoch = 0; epoch < 300; ++epoch) seen.insert(augmented(data, {.seed = 1, .epoch = epoch}, 5));
  EXPECT_EQ(seen, expected);
}

TEST_F(AugmentTest, StepsHappenInTheOrderWritten) {
  const Data both = load_with({cutout(3), flip()}), one = load_with({cutout(3)});
  for (int64_t id = 0; id < 20; ++id) {
    const SampleKey key{.seed = 4, .epoch = id};
    Pixels first = augmented(one, key, id);  // a later step does not change the draws of an earlier one
    const Pixels second = augmented(both, key, id);
    Pixels mirrored = first;
    flip_image({1, 6, 5}, Flip::kHorizontal, mirrored);
    EXPECT_TRUE(second == first || second == mirrored);
  }
}

TEST_F(AugmentTest, RotatesAndColoursWithinTheirBounds) {
  const Data data = load_with({color(0.4)});
  std::set<Pixels> seen;
  for (int64_t epoch = 0; epoch < 50; ++epoch) {
    const Pixels now = augmented(data, {.seed = 1, .epoch = epoch}, 1);
    seen.insert(now);
    for (const float value : now) EXPECT_TRUE(value >= 0 && value <= 1);
  }
  EXPECT_EQ(seen.size(), 50u);
  const Data turned = load_with({rotate(180)});
  EXPECT_NE(augmented(turned, {.seed = 1}, 1), augmented(turned, {.seed = 1}, 2));
}

// weight * sample + (1 - weight) * partner; the partner has the steps before mixup, with its own draws.
TEST_F(AugmentTest, MixesWithAnotherSample) {
  const Data mixed = load_with({flip(), mixup(0.8)}), flipped = load_with({flip()});
  ASSERT_TRUE(mixed.augmenter->mixes());
  ASSERT_FALSE(flipped.augmenter->mixes());
  std::set<int64_t> partners;
  for (int64_t id = 0; id < 24; ++id) {
    const SampleKey key{.seed = 9, .epoch = 2};
    const Augmenter::Mix mix = mixed.augmenter->mix(mixed.train, key, id);
    partners.insert(mix.partner);
    const Pixels a = augmented(flipped, key, id), b = augmented(flipped, key, mix.partner),
                 now = augmented(mixed, key, id);
    for (size_t f = 0; f < 30; ++f) EXPECT_EQ(now[f], mix.weight * a[f] + (1 - mix.weight) * b[f]);
  }
  EXPECT_GT(partners.size(), 8u);
}

// The probabilities that PyTorch's loss gets (tests/golden/mixup.py).
TEST_F(AugmentTest, LabelsOfMixedSamplesAreProbabilities) {
  const std::map<std::string, double> alphas{
      {"plain", 0.2}, {"smoothed", 0.8}, {"class_weights", 0.4}, {"accumulation", 1.5}};
  for (const Golden& item : Golden::load("mixup.json").cases()) {
    schema::DataSpec spec;
    spec.train.format = schema::DataFormat::kSafetensors;
    spec.train.path = support::source_path("tests/golden/mixup/images.safetensors");
    spec.train.augment = {mixup(alphas.at(item.name()))};
    const Data data = load(spec, 0);
    Loader loader(data.train, DataPlan({.samples = 24, .batch_size = 24}),
                  {.shuffle = false, .seed = 5, .augmenter = data.augmenter});
    const Batch& batch = loader.next();
    const Pixels expected = item["probabilities"].tensor().as<float>();
    EXPECT_TRUE(batch.classes.empty());
    ASSERT_EQ(batch.targets.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(batch.targets[i], expected[i], 1e-6) << i;
  }
}

TEST_F(AugmentTest, BlackBordersAreZeroBeforeNormalisation) {
  schema::DataSpec spec;
  spec.train = numbered_images(10, 6, 5);
  spec.train.scale = 1.0 / 255;
  spec.train.augment = {cutout(40)};
  spec.normalize = schema::Normalize::kChannels;
  spec.mean = {0.5};
  spec.std = {0.25};
  const Data data = load(spec, 0);
  Loader loader(data.train, DataPlan({.samples = 10, .batch_size = 10}), {.augmenter = data.augmenter});
  for (const float value : loader.next().features()) EXPECT_EQ(value, -2);
}

// ---- the same for any batches, ranks, threads and start
// ---------------------------------------------------------------

// The features and the mixed label of each sample in each epoch.
using AugmentedSamples = std::map<std::pair<int64_t, int64_t>, Pixels>;

AugmentedSamples augmented_samples_of(const Data& data, const PlanSpec& spec, LoaderSpec where) {
  const DataPlan plan(spec);
  AugmentedSamples samples;
  where.augmenter = data.augmenter;
  for (int64_t rank = 0; rank < spec.processes; ++rank) {
    where.rank = rank;
    Loader loader(data.train, plan, where);
    for (Position at = where.from; at.epoch < where.epochs;) {
      const Batch& batch = loader.next();
      for (size_t i = 0; i < batch.ids.size(); ++i) {
        const auto features = batch.features().subspan(i * 30, 30), labels = batch.targets.subspan(i * 4, 4);
        Pixels row(features.begin(), features.end());
        row.insert(row.end(), labels.begin(), labels.end());
        const auto [found, is_new] = samples.try_emplace({batch.position.epoch, batch.ids[i]}, row);
        EXPECT_TRUE(is_new || found->second == row);
      }
      at = batch.next();
    }
  }
  return samples;
}

TEST_F(AugmentTest, IsTheSameForAnyThreadsRanksBatchesAndStart) {
  const Data data = load_with({crop({6, 5}, 2), flip(), rotate(30), color(0.3), cutout(2), mixup(0.2)});
  const LoaderSpec where{.seed = 8, .epochs = 3};
  const AugmentedSamples all = augmented_samples_of(data, {.samples = 24, .batch_size = 4}, where);
  ASSERT_EQ(all.size(), 72u);
  std::set<Pixels> different;
  for (const auto& [at, features] : all) different.insert(features);
  EXPECT_EQ(different.size(), 72u) << "each epoch and sample has draws of its own";

  for (const int64_t threads : {0, 1, 4}) {
    LoaderSpec with = where;
    with.prefetch = threads > 0 ? 4 : 0;
    with.threads = std::max<int64_t>(threads, 1);
    EXPECT_EQ(augmented_samples_of(data, {.samples = 24, .batch_size = 3}, with), all) << threads;
  }
  for (const int64_t ranks : {2, 4})
    EXPECT_EQ(augmented_samples_of(data, {.samples = 24, .batch_size = 2, .processes = ranks}, where), all) << ranks;

  LoaderSpec later = where;
  later.from = {1, 3};
  const AugmentedSamples rest = augmented_samples_of(data, {.samples = 24, .batch_size = 4}, later);
  EXPECT_EQ(rest.size(), 36u);
  for (const auto& [at, features] : rest) EXPECT_EQ(features, all.at(at));

  LoaderSpec other = where;
  other.seed = 9;
  EXPECT_NE(augmented_samples_of(data, {.samples = 24, .batch_size = 4}, other), all);
}

// A part of a split has the draws of the whole set, because they belong to rows.
TEST_F(AugmentTest, EvaluationHasNone) {
  schema::DataSpec spec;
  spec.train = numbered_images(20, 6, 5);
  spec.train.augment = {flip(), cutout(3)};
  spec.split = schema::SplitSpec{.eval = 0.25};
  const Data data = load(spec, 0);
  Pixels features(30);
  data.eval->gather_features(std::vector<int64_t>{2}, features);
  Pixels stored(30);
  data.eval->read_features(2, stored);
  EXPECT_EQ(features, stored);
  Loader loader(*data.eval, DataPlan({.samples = 5, .batch_size = 5}), {.shuffle = false});
  const Batch& batch = loader.next();
  EXPECT_TRUE(std::ranges::equal(batch.features().subspan(60, 30), stored));
}

TEST_F(AugmentTest, RefusesSamplesThatDoNotFit) {
  EXPECT_EQ(message_of([&] {
              load_with({flip(), crop({4}, 2)});
            }),
            "data.train.augment[1].crop: crops to 4 x 4, but the samples have 6 x 5 pixels, also in evaluations; write "
            "[6, 5]");
  schema::DataSpec spec;
  spec.train = numbered_images(8, 6, 5);
  spec.train.augment = {color(0.2)};
  EXPECT_EQ(message_of([&] { load(spec, 0); }),
            "data.train.augment[0].color needs features from 0 to 1, got 0 to 255; set data.train.scale, such as "
            "0.00392156862745098 for bytes");
  spec.train.augment = {mixup(0.2)};
  EXPECT_EQ(message_of([&] { load(spec, 0, LabelsAs::kTargets); }),
            "data.train.augment[0].mixup needs classes, but the labels are numbers");
  spec.train =
      file_spec(schema::DataFormat::kNpy, write("flat.npy", npy_bytes({4, 30})), write("l.npy", npy_bytes({4})));
  spec.train.augment = {flip()};
  EXPECT_EQ(message_of([&] { load(spec, 0); }), "data.train.augment needs samples (H, W) or (C, H, W), got (30)");
}

}  // namespace
}  // namespace runner::data
