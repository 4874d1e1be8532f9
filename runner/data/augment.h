// Random changes of training samples (data.train.augment): flips, crops, rotations, colours, cutout and mixup.
//
// Samples are images (H, W) or (C, H, W) before normalisation, so that 0 is black; they keep their size. The steps
// follow torchvision's RandomHorizontalFlip, RandomVerticalFlip, RandomCrop, RandomResizedCrop (image_cut.h),
// RandomRotation (bilinear) and ColorJitter, but ColorJitter changes brightness, contrast and saturation in this order.
// Cutout: DeVries and Taylor, "Improved Regularization of Convolutional Neural Networks with Cutout", 2017, section 3.
// Mixup: Zhang et al., "mixup: Beyond Empirical Risk Minimization", 2018, section 2; each sample has a weight and a
// partner of its own.
//
// What is drawn for a sample is a function of SampleKey, its row and the steps before; a step that is added at the end
// does not change the others. Immutable, and therefore thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runner/data/dataset.h"
#include "runner/data/image_cut.h"
#include "runner/data/image_shape.h"
#include "runner/data/random.h"
#include "schema/recipe/recipe.h"

namespace runner::data {

// Whether samples are mixed, and so their labels.
bool mixes(std::span<const schema::AugmentStep> steps);

class Augmenter {
 public:
  // Memory that read() uses; one object per thread.
  struct Scratch {
    std::vector<float> copy, partner;
  };
  // Another sample that is mixed into one: the result is weight * sample + (1 - weight) * partner, and so are labels.
  struct Mix {
    int64_t partner = 0;  // its id
    float weight = 1;
  };

  // `dataset`: the training data, which all functions take. Throws Error(kData) naming the key if the samples are no
  // images or do not fit a step.
  Augmenter(const Dataset& dataset, std::vector<schema::AugmentStep> steps);

  bool mixes() const { return data::mixes(steps_); }
  // Returns how a sample is mixed. Requires mixes().
  Mix mix(const Dataset& dataset, const SampleKey& key, int64_t id) const;
  // Writes the probabilities of the classes of mixed samples: weight for the class of the sample, 1 - weight for that
  // of its partner, 0 elsewhere. `probabilities`: (B, classes). Requires mixes().
  void write_labels(const Dataset& dataset, const SampleKey& key, std::span<const int64_t> ids,
                    std::span<float> probabilities) const;
  // Reads a sample and applies the steps. `features`: (elements of the shape), before normalisation.
  void read(const Dataset& dataset, const SampleKey& key, int64_t id, std::span<float> features,
            Scratch& scratch) const;

 private:
  using Step = schema::AugmentStep;

  void apply(const Dataset& dataset, std::span<const Step> steps, const SampleKey& key, int64_t id,
             std::span<float> features, Scratch& scratch) const;

  const std::vector<Step> steps_;
  const std::optional<ImageCut> cut_;
  ImageShape shape_;
};

// Returns the augmenter of a section; null if it has no steps.
std::shared_ptr<const Augmenter> augmenter_of(const Dataset& dataset, const schema::DatasetSpec& section);

// The steps themselves. `image`: (C, H, W), changed in place; `copy`: memory for another image.
void flip_image(const ImageShape& shape, schema::Flip flip, std::span<float> image);
// Moves the image by (-down, -right) pixels; what comes in is 0.
void shift_image(const ImageShape& shape, int64_t down, int64_t right, std::span<float> image,
                 std::vector<float>& copy);
// Rotates counterclockwise around the centre, as torchvision's rotate(): bilinear between the four nearest pixels, of
// which those outside of the image are 0.
void rotate_image(const ImageShape& shape, double degrees, std::span<float> image, std::vector<float>& copy);
// As torchvision's adjust_brightness(), adjust_contrast() and adjust_saturation(), of floats from 0 to 1, with 1 or 3
// channels.
void adjust_brightness(std::span<float> image, float factor);
void adjust_contrast(const ImageShape& shape, float factor, std::span<float> image);
void adjust_saturation(const ImageShape& shape, float factor, std::span<float> image);
// Sets the part of a square that is in the image to 0. (y, x): its centre, the lower right of the middle four pixels if
// `side` is even.
void cut_out(const ImageShape& shape, int64_t y, int64_t x, int64_t side, std::span<float> image);

// A number with the distribution Beta(alpha, alpha).
double draw_beta(double alpha, RandomSequence& random);

}  // namespace runner::data
