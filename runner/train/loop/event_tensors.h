// Tensors in an event of a hook, such as on_epoch_end.
//
// The event's operations are recorded into a traced region without gradients and updates. It begins when the hook uses
// the first tensor, so that other events cost nothing, and runs when the event ends or takes an evaluation batch.
#pragma once

#include <map>
#include <string>

#include "runner/train/loop/hook_tensors.h"

namespace runner::train {

class EventTensors final : public HookTensors {
 public:
  // Both must outlive the object.
  EventTensors(TrainState& state, Hooks& hooks) : HookTensors(state, hooks) {}
  // Drops what was recorded, if the event has failed.
  ~EventTensors() override;

  // Ends the event. Returns the values that it has logged.
  std::map<std::string, double> end();

 private:
  void require_region() override;
  void begin_region() override {}
  void end_region() override;

  bool has_begun_ = false;  // any region
  std::map<std::string, double> logged_;
};

}  // namespace runner::train
