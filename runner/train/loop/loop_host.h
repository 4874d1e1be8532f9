// What a training loop, declared or a hook's, requires from the run around it.
//
// The loop decides what the device computes. The run handles what follows an optimizer step: points, evaluations,
// checkpoints, events. Belongs to the training thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runner/data/loader.h"
#include "runner/train/engine/hooks.h"
#include "runner/train/engine/not_finite.h"
#include "runner/train/engine/window.h"

namespace runner::train {

// The situation before an optimizer step, to return to if the run ends without it.
struct WindowStart {
  data::Position at;
  int64_t windows = 0, batches = 0;  // see Counters
  bool carries_gradients = false;    // a hook's loop continues with gradients of the previous optimizer step
  HookMark hook;                     // before on_epoch_begin, which is repeated when the run continues from here
  HookMark recorded;                 // after it, before the first batch is recorded
};

// The run around a loop. Loops do not depend on its class (replica_run.h).
class LoopHost {
 public:
  virtual ~LoopHost() = default;
  virtual int64_t step() const = 0;                               // finished optimizer steps
  virtual data::Position position() const = 0;                    // of the next batch
  virtual data::LoaderSpec loader_spec() = 0;                     // for a loader that continues there
  virtual void set_position(const data::Position& position) = 0;  // outside of an optimizer step
  // The optimizer step in progress, if a run of the declared loop continues within one.
  virtual const TrainingWindow& window() const = 0;
  virtual bool finished() const = 0;       // the last step is done
  virtual bool asked_to_stop() const = 0;  // whether this rank was asked to stop from outside
  virtual bool interrupted() const = 0;    // whether all ranks have agreed to stop here
  virtual void settle() = 0;               // saves a due checkpoint: nothing more belongs to the last optimizer step
  virtual WindowStart begin_window() = 0;  // calls settle()
  // Likewise for an optimizer step that another process has begun, or for a hook outside of any.
  virtual WindowStart here() = 0;
  // Reports an optimizer step that is not finite. Throws if that ends the run. `untouched`: nothing has been updated
  // since its start.
  virtual void not_finite(const NotFinite& found, const WindowStart& start, bool untouched) = 0;
  // Call if an optimizer step has failed, which ends the run, and nothing has been updated since its start. Saves a
  // checkpoint of the start, if the run can be resumed exactly from there.
  virtual void keep_before(const WindowStart& start) = 0;
  // Reports an optimizer step in progress, at a point where it can be saved in a checkpoint.
  virtual void inside_window(const TrainingWindow& window) = 0;
  virtual void end_window(const TrainingWindow& window) = 0;
  // Whether end_window() and everything up to the recording of the next optimizer step need no results from the device,
  // and `start` describes the beginning completely.
  virtual bool may_end_before_device(const TrainingWindow& window, const WindowStart& start) = 0;
  virtual void warn(const std::string& text) = 0;
  virtual void point(const std::string& name, double value) = 0;  // at the end of the optimizer step
  virtual void save_soon(bool in_window) = 0;  // a checkpoint, when the current or last optimizer step is settled
  // Throws if the run has no such checkpoint. None: throws if it has no checkpoint at all.
  virtual void check_state(std::optional<int64_t> state) = 0;
  virtual void load(std::optional<int64_t> state) = 0;
};

}  // namespace runner::train
