// The loops of a hook over epochs and their training batches: which epoch comes next, the loader, the current batch.
//
// CustomLoop calls this class between traced regions. Belongs to the training thread.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "runner/data/loader.h"
#include "runner/train/loop/hook_batch.h"
#include "runner/train/loop/train_loop.h"

namespace runner::train {

class TrainBatches {
 public:
  // Both must outlive the object.
  TrainBatches(TrainState& state, TrainLoop& loop) : state_(state), session_(state.session), loop_(loop) {}

  // `next`, here and below: position of the next training batch.

  // ---- epochs ----

  // Returns the epochs [first, end) of the next loop over epochs: the `count` epochs after those of earlier loops, or
  // all until the last step of the run. Throws Error(kRun) if there is a loop over epochs, or if the recipe has fewer
  // epochs.
  struct Epochs {
    int64_t first = 0, end = 0;
  };
  Epochs begin_epochs(std::optional<int64_t> count);
  // Returns the next epoch, counted from 0, or none if the loop is over.
  std::optional<int64_t> next_epoch(const Epochs& epochs, const data::Position& next);
  // Call when the loop is left, perhaps early.
  void end_epochs();
  // Whether `epoch` is the one that the loop over epochs has returned last.
  bool is_in_epoch(int64_t epoch) const { return epochs_.given == epoch; }

  // ---- batches ----

  // Throws Error(kRun) if the current epoch has no more batches.
  void check_epoch(const data::Position& next) const;
  // Starts a loop over the remaining batches of the epoch of `next`.
  void begin(const data::Position& next) { epoch_of_batches_ = next.epoch; }
  bool ends_before(const data::Position& next) const { return next.epoch != epoch_of_batches_; }
  // Makes the loader. Replaces it if `even` has changed, which overrides data.even_batches; none: as in the recipe.
  void load(const data::Position& next, std::optional<bool> even);
  // See TrainLoop::wait_for_batch().
  bool wait() { return loop_.wait_for_batch(*loader_, std::exchange(is_new_, false)); }
  void take() { current_.take(*loader_); }
  void end_batch() { current_.batch = nullptr; }
  // Drops the loader, because the position of the next batch has changed.
  void drop() { loader_.reset(); }

  const HookBatch& current() const { return current_; }

 private:
  // Progress of the loops over epochs.
  struct EpochCount {
    int64_t before = 0;            // epochs of earlier loops
    bool in_progress = false;      // whether there is a loop over epochs
    std::optional<int64_t> given;  // last epoch that the current loop returned
  };

  static constexpr int64_t kUntilLastStep = INT64_MAX;

  void check_count(int64_t first, int64_t count) const;

  TrainState& state_;
  Session& session_;
  TrainLoop& loop_;
  EpochCount epochs_;
  std::optional<int64_t> epoch_of_batches_;  // of the current loop over batches
  std::optional<data::Loader> loader_;
  bool is_new_ = false;               // the loader: wait() has not been called since it was made
  std::optional<bool> even_batches_;  // value when the loader was made
  HookBatch current_;
};

}  // namespace runner::train
