// scheduler.type plateau, as torch.optim.lr_scheduler.ReduceLROnPlateau.
#include <limits>

#include "runner/optim/schedule_def.h"

namespace runner::optim {
namespace {

bool improves(const SchedulerSpec& spec, const PlateauState& state, double metric, bool maximizes) {
  const double sign = maximizes ? 1.0 : -1.0;  // sign of an improvement
  const double best = state.best.value_or(-sign * std::numeric_limits<double>::infinity());
  const bool relative = spec.threshold_mode == schema::ThresholdMode::kRel;
  const double bar = relative ? best * (1.0 + sign * spec.threshold) : best + sign * spec.threshold;
  return maximizes ? metric > bar : metric < bar;
}

bool observe(const Schedule& schedule, PlateauState& state, double metric, bool maximizes) {
  const SchedulerSpec& spec = schedule.spec;
  if (improves(spec, state, metric, maximizes)) {
    state.best = metric;
    state.bad_evaluations = 0;
  } else {
    ++state.bad_evaluations;
  }
  if (state.cooldown > 0) {
    --state.cooldown;
    state.bad_evaluations = 0;
  }
  if (state.bad_evaluations <= spec.patience) return false;
  state.cooldown = spec.cooldown;
  state.bad_evaluations = 0;
  const double rate = schedule.lr * state.factor;
  const double lower = std::max(rate * spec.factor, spec.min_lr);
  if (rate - lower <= spec.eps) return false;
  state.factor = lower / schedule.lr;
  return true;
}

}  // namespace

const ScheduleDef kPlateauSchedule{
    .factor = [](const Schedule&, int64_t) { return 1.0; },
    .momentum = nullptr,
    .observe = observe,
    .check = nullptr,
    .uses_length = false,
    .replaces_rate = false,
};

}  // namespace runner::optim
