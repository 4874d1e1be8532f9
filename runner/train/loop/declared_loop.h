// The training loop declared by a recipe: optimizer steps until the last step or an interruption.
//
// The loop can stop within an optimizer step, whenever the gradients have been summed over all ranks
// (Stepper::advance()). A checkpoint then allows another process to continue it.
#pragma once

#include <cstdint>
#include <optional>

#include "runner/train/loop/session.h"
#include "runner/train/loop/train_loop.h"

namespace runner::train {

class DeclaredLoop {
 public:
  // Both must outlive the loop.
  DeclaredLoop(Session& session, TrainLoop& loop) : session_(session), loop_(loop) {}

  void run();

 private:
  // Where this process began the optimizer step, and after how many of its batches.
  struct Begun {
    StepStart start;
    int64_t behind = 0;
  };

  bool should_continue() const;
  bool begin_step();
  void advance(BatchFeed& batches);
  void keep_step();
  void end_step();
  void resolve_newest();
  void resolve(StepResult& result, const Begun& begun);
  void keep_before(const Begun& begun);
  void void_step(const Begun& begun);

  Session& session_;
  TrainLoop& loop_;
  StepResult result_;  // in progress; none if it has no batches
  Begun begun_;
  std::optional<Begun> newest_;          // last optimizer step, if the host does not know yet whether it was finite
  std::optional<NotFinite> not_finite_;  // of the first such step; searched for only once, because it is slow
};

}  // namespace runner::train
