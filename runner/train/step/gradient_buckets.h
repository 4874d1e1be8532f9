// The gradients of a model in the buckets in which replicas on GPUs reduce them, as DistributedDataParallel cuts them.
// Values; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "backends/backend.h"
#include "runner/nn/parameter_set.h"
#include "runner/train/step/step_builder.h"
#include "schema/recipe.h"

namespace runner::train {

// Whether they may be added up before the window's end is known: what is rounded or compressed on its way depends on
// the sum of all weights.
bool may_reduce_in_buckets(const schema::Recipe& recipe);

class GradientBuckets {
 public:
  // The name of what a real device has of them, beside its gradients: as much.
  static constexpr std::string_view kName = "buckets of gradients";

  using Bucket = std::vector<nn::ParameterId>;
  // A part of a flat buffer, in elements.
  struct Piece {
    int32_t buffer;
    int64_t first, count;
  };

  // All parameters that are trained.
  explicit GradientBuckets(const StepBuilder& builder);

  size_t size() const { return buckets_.size(); }
  const Bucket& operator[](size_t bucket) const { return buckets_[bucket]; }
  // Neighbours in a buffer are one.
  const std::vector<Piece>& pieces(size_t bucket) const { return pieces_[bucket]; }
  // What a replica that shares nothing has reduced: all of it (Arguments::reduced).
  std::span<const backends::ReducedBytes> reduced() const { return reduced_; }

 private:
  std::vector<Piece> joined(const Bucket& bucket, const nn::ParameterSet& parameters) const;

  std::vector<Bucket> buckets_;  // in the order in which they are reduced
  std::vector<std::vector<Piece>> pieces_;
  std::vector<backends::ReducedBytes> reduced_;
};

// Of an array of floats that is a state.
backends::StateBytes floats_of(int32_t state, int64_t first, int64_t count);

}  // namespace runner::train
