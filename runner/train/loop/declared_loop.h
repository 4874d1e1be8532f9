// The training loop that a recipe declares: window after window, up to the last step or an interruption.
//
// A window can be left inside, where the gradients of all replicas are added up (Trainer::advance), and be gone on with
// by another process, which has it from a state.
#pragma once

#include <cstdint>
#include <optional>

#include "runner/train/loop/loop_host.h"
#include "runner/train/loop/session.h"

namespace runner::train {

class DeclaredLoop {
 public:
  // Both must outlive the loop.
  DeclaredLoop(Session& session, LoopHost& host) : session_(session), host_(host) {}

  void run();

 private:
  // Where this process has begun with a window, and behind how many batches of it.
  struct Begun {
    WindowStart start;
    int64_t behind = 0;
  };

  bool goes_on() const;
  bool begin_window();
  void advance(BatchFeed& batches);
  void keep_window();
  void end_window();
  void learn_newest();
  void learn_end(TrainingWindow& window, const Begun& begun);
  void keep_before(const Begun& begun);
  void void_window(const Begun& begun);

  Session& session_;
  LoopHost& host_;
  TrainingWindow window_;  // under way; without batches: none
  Begun begun_;
  std::optional<Begun> newest_;          // window, of which only the device knows whether it was finite
  std::optional<NotFinite> not_finite_;  // in the first window that was not; found once, it takes a while
};

}  // namespace runner::train
