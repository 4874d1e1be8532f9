// The checkpoints of one run: decides which are worth keeping, saves them in the background, tracks the results.
//
// The writer's thread saves; collect() handles finished saves. A failed save is a warning of the writer, and the next
// save continues; only the last save of a run must succeed. Not thread-safe; belongs to the training thread.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "runner/train/loop/checkpoint.h"
#include "runner/train/run/checkpoint/sections.h"
#include "schema/base/secrets.h"
#include "schema/recipe/recipe.h"
#include "store/run_writer.h"

namespace runner::train {

class Trainer;

class CheckpointSaver {
 public:
  // `maximizes`: whether larger values of keep_best's metric are better. All other arguments must outlive the object.
  CheckpointSaver(store::RunWriter& writer, const schema::CheckpointSpec& spec, bool maximizes)
      : writer_(writer),
        spec_(spec),
        best_metric_(spec.keep_best ? hide_secrets(spec.keep_best->metric) : ""),
        maximizes_(maximizes) {}

  // Continues after a checkpoint of an earlier attempt. `states`: all checkpoints of the run.
  void resume(int64_t step, const std::vector<store::StateInfo>& states);

  // Whether checkpoint.keep_best would keep a checkpoint with these metrics.
  bool is_among_best(const std::map<std::string, double>& metrics) const;

  // Saves the trainer, unless this point of the run is already saved and there are no `names`. `metrics`: those
  // recorded at this step, for keep_best. `names`: without secrets. `pinned`: exempt from retention, as are checkpoints
  // with names. `arrays`: kLent waits until the checkpoint is saved. Throws Error(kRun) if a parameter is not finite;
  // such a checkpoint is never saved.
  void save(Trainer& trainer, const Checkpoint& state, const char* reason, bool pinned,
            const std::map<std::string, double>& metrics, const std::vector<std::string>& names = {},
            Arrays arrays = Arrays::kCopied);

  // Bytes of the largest checkpoint that this object has copied.
  int64_t largest_copy() const { return largest_copy_; }

  // Call if the trainer no longer holds what has been saved at this step.
  void forget() { saved_at_ = {}; }

  // Handles finished saves.
  void collect();
  // Waits for all saves. Throws Error(kStore) if the last one failed.
  void wait();

 private:
  store::Retention retention() const;
  void take_first();
  void note(const std::map<std::string, double>& metrics);

  store::RunWriter& writer_;
  const schema::CheckpointSpec& spec_;
  const std::string best_metric_;  // of keep_best, as it is recorded
  const bool maximizes_;
  std::deque<store::Outcome<store::StateInfo>> saves_;  // in progress, oldest first
  // Place in training of the last checkpoint, saved or in progress.
  struct Moment {
    int64_t step = -1;
    int64_t batches = 0;  // of the optimizer step in progress
    bool operator==(const Moment&) const = default;
  };
  Moment saved_at_;
  int64_t largest_copy_ = 0;
  std::vector<double> best_;  // values of keep_best's metric, best first
};

}  // namespace runner::train
