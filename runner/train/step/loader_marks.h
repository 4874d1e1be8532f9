// Where PyTorch/XLA's device loader marks a step, and a device that keeps account of graphs cuts them: before it gives
// a batch, or finds that there is none, so many batches behind the last mark, and once more at the end.  Not
// thread-safe.
#pragma once

#include <array>
#include <cstdint>

#include "backends/backend.h"
#include "schema/recipe.h"

namespace runner::train {

class LoaderMarks {
 public:
  // Both must outlive it.
  LoaderMarks(const schema::Recipe& recipe, backends::Device& device) : recipe_(recipe), device_(device) {}

  // A loader has given a batch, of training or not.
  void begin_batch(bool training);
  // It has no more of this epoch.
  void end_batches(bool training);

 private:
  void mark_where_due(bool training);

  const schema::Recipe& recipe_;
  backends::Device& device_;
  std::array<int64_t, 2> since_mark_{};  // of the loader of evaluations, and of that of training
};

}  // namespace runner::train
