// What may change the samples of training as they are read, such as a hook's augmentation.
#pragma once

#include <cstdint>
#include <span>

#include "backends/tensor/shape.h"

namespace runner::data {

// One sample as the data set has it; only its features may be changed.
struct Sample {
  const backends::Shape& shape;
  std::span<float> features;  // (elements of `shape`)
  int64_t label = 0;          // the class, where there are classes
  std::span<const float> targets;
  int64_t id = 0;     // in the data set
  int64_t epoch = 0;  // from 0
  int64_t batch = 0;  // how many the loader has assembled before: for pass_on() alone
};

// What it makes of a sample is a function of the sample, its id and its epoch alone: batches are the same whatever was
// read before, or by how many loaders.  Used by one Loader.
class Transform {
 public:
  virtual ~Transform() = default;

  // Changes the features in place, on the thread that assembles batches.  What it throws reaches whoever takes the
  // batch.
  virtual void apply(const Sample& sample) = 0;

  // Called on the thread that takes batches, with the number of that taken: for what apply() had to say of its samples
  // and of those before.
  virtual void pass_on(int64_t /*batch*/) {}
};

}  // namespace runner::data
