// A hook's loop over the batches of the evaluation data. Belongs to the training thread.
#pragma once

#include <cstdint>
#include <optional>

#include "runner/data/loader.h"
#include "runner/train/loop/hook_batch.h"
#include "runner/train/loop/session.h"

namespace runner::train {

class EvalBatches {
 public:
  // `session` must outlive the object.
  explicit EvalBatches(const Session& session) : session_(session) {}

  // All need a recipe with evaluation data.

  // Number of batches of the evaluation data.
  int64_t count() const { return plan().steps_per_epoch(); }
  // Starts a loop over the evaluation data. `even`: overrides data.even_batches; none: as in the recipe.
  void begin(std::optional<bool> even);
  bool in_progress() const { return loader_.has_value(); }
  // Whether a loop is in progress that fills up its last batch.
  bool pads() const { return pads_; }
  // Takes the next batch. Returns false if there is none.
  bool take();
  void end();

  const HookBatch& current() const { return current_; }

 private:
  data::DataPlan plan() const;

  const Session& session_;
  std::optional<data::Loader> loader_;
  HookBatch current_;
  int64_t left_ = 0;  // batches
  bool pads_ = false;
};

}  // namespace runner::train
