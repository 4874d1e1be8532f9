// The training loop declared by a recipe: optimizer steps until the last step or an interruption.
//
// The loop can stop within an optimizer step, whenever the gradients have been summed over all ranks
// (Stepper::advance()). A checkpoint then allows another process to continue it.
#pragma once

#include <cstdint>
#include <optional>

#include "runner/train/loop/train_loop.h"

namespace runner::train {

class DeclaredLoop {
 public:
  // Both must outlive the loop.
  DeclaredLoop(TrainState& state, TrainLoop& loop) : state_(state), session_(state.session), loop_(loop) {}

  void run();

 private:
  // Where this process began the optimizer step. `first_batch`: number of its batches that were taken before.
  struct StepOrigin {
    StepStart start;
    int64_t first_batch = 0;
  };

  bool should_continue() const;
  bool begin_step();
  void advance(BatchFeed& batches);
  void end_step();
  void resolve_in_flight();
  void resolve(StepResult& result, const StepOrigin& origin);
  void keep_before(const StepOrigin& origin);
  void skip_step(const StepOrigin& origin);

  TrainState& state_;
  Session& session_;
  TrainLoop& loop_;
  StepOrigin origin_;
  std::optional<StepOrigin> in_flight_;  // last optimizer step, if the host does not know yet whether it was finite
  std::optional<NotFinite> not_finite_;  // of the first such step; searched for only once, because it is slow
};

}  // namespace runner::train
