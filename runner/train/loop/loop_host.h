// What a training loop, the recipe's or a hook's, asks of the run around it.
//
// A loop decides what the device computes; what follows from a window - points, evaluations, states, events - is the
// run's.  Belongs to the training thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runner/data/loader.h"
#include "runner/train/step/hooks.h"
#include "runner/train/step/not_finite.h"
#include "runner/train/step/window.h"

namespace runner::train {

// How things are before a window, which may turn out to be one that a run ends without.
struct WindowStart {
  data::Position at;
  int64_t windows = 0, batches = 0;  // Counters
  bool carries_gradients = false;    // a loop of a hook's goes on with those of the window before
  HookMark hook;                     // before on_epoch_begin, which comes again when the run goes on from there
  HookMark recorded;                 // behind it: before the first batch is recorded
};

// The run around a loop, whose class (replica_run.h) no loop knows.
class LoopHost {
 public:
  virtual ~LoopHost() = default;
  virtual int64_t step() const = 0;                               // finished windows
  virtual data::Position position() const = 0;                    // of the next batch
  virtual data::LoaderSpec loader_spec() = 0;                     // from there on
  virtual void set_position(const data::Position& position) = 0;  // no window is under way
  virtual const TrainingWindow& window() const = 0;  // under way, where a run of the recipe's loop goes on inside one
  virtual bool finished() const = 0;                 // the last step is done
  virtual bool asked_to_stop() const = 0;            // this replica, from outside
  virtual bool interrupted() const = 0;              // all, at one place
  virtual void settle() = 0;                         // nothing belongs to the last window any more
  virtual WindowStart begin_window() = 0;            // settles, too
  virtual WindowStart here() = 0;  // the same of a window that another process has begun, or a hook outside of any
  // A window is not finite.  Throws where that ends the run; `untouched`: nothing has been updated since its start.
  virtual void not_finite(const NotFinite& found, const WindowStart& start, bool untouched) = 0;
  // A step of a window has failed, which ends the run, and nothing has been updated since the window's start: keeps
  // what was trained until then, where that can be gone on with exactly.
  virtual void keep_before(const WindowStart& start) = 0;
  virtual void inside_window(const TrainingWindow& window) = 0;  // that goes on, and can be in a state
  virtual void end_window(const TrainingWindow& window) = 0;
  // Whether end_window() and what follows up to the next window's recording need nothing of what the device has made of
  // the window, and the start says all of how things were.
  virtual bool may_end_before_device(const TrainingWindow& window, const WindowStart& start) = 0;
  virtual void warn(const std::string& text) = 0;
  virtual void point(const std::string& name, double value) = 0;  // at the end of the window
  virtual void save_soon(bool in_window) = 0;                     // when the window under way, or the last, is settled
  // Throws where the run has no such state (none: no state at all).
  virtual void check_state(std::optional<int64_t> state) = 0;
  virtual void load(std::optional<int64_t> state) = 0;
};

}  // namespace runner::train
