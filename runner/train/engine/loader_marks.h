// Marks steps where the device loader of PyTorch/XLA does, so that a lazy device cuts its graph there: before a batch
// is returned, or at the end of the data, every `batches_per_execution` batches, and once more at the end. Not
// thread-safe.
#pragma once

#include <array>
#include <cstdint>

#include "backends/device_model/modelled_device.h"
#include "schema/recipe/recipe.h"

namespace runner::train {

class LoaderMarks {
 public:
  // Both must outlive the object.
  LoaderMarks(const schema::Recipe& recipe, backends::ModelledDevice& device) : recipe_(recipe), device_(device) {}

  // Call after taking a batch from a loader. `training`: whether it is the training loader.
  void begin_batch(bool training);
  // Call at the end of an epoch.
  void end_batches(bool training);

 private:
  void mark_where_due(bool training);

  const schema::Recipe& recipe_;
  backends::ModelledDevice& device_;
  // Batches since the last mark, of the evaluation loader and of the training loader.
  std::array<int64_t, 2> since_mark_{};
};

}  // namespace runner::train
