// Interface for modifying training samples as they are read, such as data augmentation by a hook.
#pragma once

#include <cstdint>
#include <span>

#include "backends/tensor/shape.h"

namespace runner::data {

// A sample of the data set. Only its features may be modified.
struct Sample {
  const backends::Shape& shape;
  std::span<float> features;  // (elements of `shape`)
  int64_t label = 0;          // class, if labels are classes
  std::span<const float> targets;
  int64_t id = 0;     // index in the data set
  int64_t epoch = 0;  // from 0
  int64_t batch = 0;  // number of batches the loader has begun before; for pass_on() only
};

// The result must depend only on the sample, its id and its epoch: batches are the same whatever was read before, and
// by however many loaders. Belongs to one Loader.
class Transform {
 public:
  virtual ~Transform() = default;

  // Modifies the features in place, on the thread that assembles batches. An exception is rethrown to the consumer of
  // the batch.
  virtual void apply(const Sample& sample) = 0;

  // Called on the consumer's thread with the number of the batch taken. Implementations forward what apply() reported
  // for the samples up to this batch, such as messages.
  virtual void pass_on(int64_t /*batch*/) {}
};

}  // namespace runner::data
