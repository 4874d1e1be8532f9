// State of a run in training, on one rank: arrays, counters, random generators, data position. A checkpoint is a copy
// of it.
//
// The loops change it; callbacks read it. Belongs to the training thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "runner/data/loader.h"
#include "runner/train/loop/checkpoint.h"
#include "runner/train/loop/hooks.h"
#include "runner/train/loop/interval.h"
#include "runner/train/loop/session.h"
#include "runner/train/loop/train_control.h"

namespace runner::train {

// The situation before an optimizer step, to return to if the run ends without it.
struct StepStart {
  data::Position at;
  int64_t steps = 0, batches = 0;  // see Counters
  bool carries_gradients = false;  // a hook's loop continues with gradients of the previous optimizer step
  HookMark hook;                   // before on_epoch_begin, which is repeated when the run continues from here
  HookMark recorded;               // after it, before the first batch is recorded
};

// The evaluation after the last optimizer step.
struct StepEvaluation {
  bool due = false;
  bool is_extra = false;  // only the end of the run makes it due; a longer run would not have it
  bool done = false;
};

struct TrainState {
  // `hooks`: null if there is no hook. `stop`: see TrainControl. All must outlive the object.
  TrainState(Session& session, Hooks* hooks, const std::atomic<int>& stop);

  Session& session;  // with the Trainer: arrays, counters, metrics
  Hooks* const hooks;
  data::Position position;    // of the next batch
  StepResult result;          // of the declared loop, in progress; without batches: none
  Progress reached;           // at the end of the last optimizer step
  int64_t next_accumulation;  // batches per optimizer step after the current one
  Patience patience;
  TrainControl control;
  StepEvaluation evaluation;
  bool stopped_early = false;        // by early stopping
  bool weights_agree = true;         // whether the ranks have the same weights
  bool records_batches = false;      // whether batch_digest of steps is that of all ranks, and recorded
  bool evaluation_is_stale = false;  // weights were loaded after the last evaluation, or without one
  bool is_as_restored = false;       // no optimizer step since a checkpoint was restored
  int64_t skipped = 0;               // optimizer steps that were not finite, in this attempt
  int64_t skipped_before = 0;        // in earlier attempts
  bool continues_hook = false;       // the hook continues from a checkpoint
  data::InputUse input;              // samples that the training loaders have read

  // Number of finished optimizer steps.
  int64_t step() const { return session.trainer.counters.steps; }
  bool stops() const { return stopped_early || control.stopped_by_hook(); }
  bool finished() const { return step() >= session.length.total_steps || stops(); }
  // Whether all ranks have agreed to stop here.
  bool interrupted() const {
    return session.ranks != nullptr ? control.agreed_to_stop() && weights_agree : control.asked_to_stop();
  }
  // Whether training came to the end of the run, although a hook's loop may have left epochs early.
  bool reached_end() const {
    const auto& epochs = session.recipe.train.epochs;
    return finished() || (epochs && position.epoch >= *epochs);
  }
  void set_position(const data::Position& next);

  // Copies what the host keeps, after waiting for the device.
  Checkpoint checkpoint();
  // Returns the checkpoint of a return to `start`. The hook has advanced since: its kept state is used or, if it was
  // too large to be kept, its current one with the former random numbers.
  Checkpoint checkpoint_of(const StepStart& start);
  // Applies a checkpoint whose arrays and counters have been restored. `resumed`: it is of this run, not of a parent.
  // Returns a warning if the global batch size has changed and optimizer steps have other samples now. Throws
  // Error(kUsage) if they should have the same samples, but cannot.
  std::optional<std::string> restore(const Checkpoint& from, bool resumed);
  // Throws Error(kUsage) if optimizer steps have not as many samples as in a checkpoint.
  void check_step_size(const Checkpoint& from) const;
  // Applies the parts of a checkpoint that a running hook's loop takes over; position and counters stay.
  void restore_values(const Checkpoint& from);
  // Applies a change of next_accumulation, from the next optimizer step on.
  void adopt_accumulation();
};

}  // namespace runner::train
