// The gradients of a model, divided into buckets that are reduced together, like DistributedDataParallel's buckets.
// Immutable; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "backends/device_model/device_model.h"
#include "runner/model/parameter_set.h"
#include "runner/train/step/step_builder.h"
#include "schema/recipe/recipe.h"

namespace runner::train {

// Whether gradients may be summed before the end of the optimizer step is known. False for compressed or rounded
// gradients, which depend on the sum of all weights.
bool may_reduce_in_buckets(const schema::Recipe& recipe);

class GradientBuckets {
 public:
  // Name for DDP's copies of the gradients in a device model. They are as large as the gradients.
  static constexpr std::string_view kName = "buckets of gradients";

  using Bucket = std::vector<nn::ParameterId>;
  // A part of a flat buffer, in elements.
  struct Piece {
    int32_t buffer;
    int64_t first, count;
  };

  // Divides all trained parameters. A bucket ends with the gradient that reaches or exceeds `cap` bytes.
  GradientBuckets(const StepBuilder& builder, int64_t cap);

  size_t size() const { return buckets_.size(); }
  const Bucket& operator[](size_t bucket) const { return buckets_[bucket]; }
  // Parts of flat buffers in a bucket. Adjacent parameters are merged.
  const std::vector<Piece>& pieces(size_t bucket) const { return pieces_[bucket]; }
  // Byte ranges that a rank which shares nothing reduces, for SubmissionInfo::reduced: all gradients.
  std::span<const backends::ReducedBytes> reduced() const { return reduced_; }

 private:
  std::vector<Piece> joined(const Bucket& bucket, const nn::ParameterSet& parameters) const;

  std::vector<Bucket> buckets_;  // in the order of reduction
  std::vector<std::vector<Piece>> pieces_;
  std::vector<backends::ReducedBytes> reduced_;
};

// Byte range of `count` floats starting at element `first` of a state.
backends::StateBytes floats_of(int32_t state, int64_t first, int64_t count);

}  // namespace runner::train
