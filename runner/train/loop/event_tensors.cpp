#include "runner/train/loop/event_tensors.h"

#include <utility>

namespace runner::train {

EventTensors::~EventTensors() {
  if (!has_region()) return;
  drop_region();
  trainer_.regions().forget_exchanged();
}

void EventTensors::require_region() {
  has_begun_ = true;
  start_region({.training = false, .gradients = std::vector<GradientState>(trainer_.arrays().gradients().size())});
}

void EventTensors::end_region() {
  if (!has_region()) return;
  region().finish();
  if (region().does_something()) {
    run_program("event");
    for (const TracedRegion::Logged& logged : region().logged())
      logged_[logged.name] = trainer_.regions().read_output(region(), logged.output);
  }
  trainer_.regions().forget_exchanged();
  drop_region();
}

std::map<std::string, double> EventTensors::end() {
  end_region();
  eval_.end();
  if (std::exchange(has_begun_, false)) trainer_.on_host_event(backends::HostEvent::kStepMark);
  return std::move(logged_);
}

}  // namespace runner::train
