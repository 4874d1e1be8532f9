// The loops over epochs and batches of a hook: which epoch comes next, the loaders, and the current batches.
//
// HookTensors and CustomLoop call this class between traced regions. Belongs to the training thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "runner/data/loader.h"
#include "runner/train/loop/train_loop.h"

namespace runner::train {

class LoopBatches {
 public:
  // Both must outlive the object.
  LoopBatches(TrainState& state, TrainLoop& loop) : state_(state), session_(state.session), loop_(loop) {}

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

  // ---- training batches ----

  // Throws Error(kRun) if the current epoch has no more batches.
  void check_epoch(const data::Position& next) const;
  // Starts a loop over the remaining batches of the epoch of `next`.
  void begin_training(const data::Position& next) { epoch_of_batches_ = next.epoch; }
  bool ends_before(const data::Position& next) const { return next.epoch != epoch_of_batches_; }
  // Makes the loader. Replaces it if even_batches has changed.
  void load_training(const data::Position& next);
  // Waits until the loader has a batch. Returns false if `give_up` has returned true before.
  bool wait_for_training(const std::function<bool()>& give_up) { return train_.loader->wait(give_up); }
  void take_training() { take(train_); }
  void end_training_batch() { train_.batch = nullptr; }
  // Drops the loader, because the position of the next batch has changed.
  void drop_training() { train_.loader.reset(); }

  // ---- evaluation batches ----

  // Starts a loop over the evaluation data, which the recipe must have.
  void begin_evaluation();
  bool has_evaluation() const { return eval_.loader.has_value(); }
  // Takes the next batch. Returns false if there is none.
  bool take_evaluation();
  void end_evaluation();

  // ---- current batches: null if there is none ----

  const data::Batch* training() const { return train_.batch; }
  const data::Batch* evaluation() const { return eval_.batch; }
  // The evaluation batch, or else the training batch.
  const data::Batch* current() const { return evaluation() != nullptr ? eval_.batch : train_.batch; }
  // Numbers of the current batches, never used again in this process.
  int64_t training_number() const { return train_.number; }
  int64_t evaluation_number() const { return eval_.number; }
  int64_t current_number() const { return evaluation() != nullptr ? eval_.number : train_.number; }

  // Overrides data.even_batches for the batches requested from now on; none: as in the recipe. Returns the previous
  // value.
  std::optional<bool> set_even_batches(std::optional<bool> even);

 private:
  // A loop over batches.
  struct Batches {
    std::optional<data::Loader> loader;
    std::optional<bool> even_batches;    // value when the loader was made
    const data::Batch* batch = nullptr;  // current batch; null: none
    int64_t number = 0;                  // of the current batch
    int64_t left = 0;                    // remaining batches of the evaluation data
  };
  // Progress of the loops over epochs.
  struct EpochCount {
    int64_t before = 0;            // epochs of earlier loops
    bool in_progress = false;      // whether there is a loop over epochs
    std::optional<int64_t> given;  // last epoch that the current loop returned
  };

  static constexpr int64_t kUntilLastStep = INT64_MAX;

  void check_count(int64_t first, int64_t count) const;
  void take(Batches& batches);
  data::DataPlan with_even_batches(const data::DataPlan& plan) const;

  TrainState& state_;
  Session& session_;
  TrainLoop& loop_;
  EpochCount epochs_;
  std::optional<int64_t> epoch_of_batches_;  // of the current loop over training batches
  Batches train_, eval_;
  std::optional<bool> even_batches_;  // none: as in the recipe
  bool warned_of_even_batches_ = false;
};

}  // namespace runner::train
