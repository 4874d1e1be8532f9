// scheduler.type one_cycle, as torch.optim.lr_scheduler.OneCycleLR.
#include <cmath>
#include <numbers>

#include "runner/optim/schedule_def.h"
#include "schema/base/error.h"

namespace runner::optim {
namespace {

struct CyclePoint {
  double factor, momentum;
};

struct CyclePhase {
  double end_step;
  CyclePoint from, to;
};

// Interpolates from `start` to `end` as `part` goes from 0 to 1.
double anneal(double start, double end, double part, bool cosine) {
  if (!cosine) return (end - start) * part + start;
  return end + (start - end) / 2.0 * (std::cos(std::numbers::pi * part) + 1.0);
}

// `top`: factor at the peak. A phase of length 0 is at its end.
CyclePoint one_cycle(const Schedule& schedule, double top, int64_t step) {
  const SchedulerSpec& spec = schedule.spec;
  const double initial = top / spec.div_factor;
  const CyclePoint start{initial, spec.max_momentum};
  const CyclePoint peak{top, spec.base_momentum};
  const CyclePoint finish{initial / spec.final_div_factor, spec.max_momentum};
  const double total = static_cast<double>(schedule.length);
  const double rise_end = spec.pct_start * total - 1, fall_end = 2 * spec.pct_start * total - 2;
  const CyclePhase fall = spec.three_phase ? CyclePhase{fall_end, peak, start} : CyclePhase{total - 1, peak, finish};
  const CyclePhase phases[] = {{rise_end, start, peak}, fall, {total - 1, start, finish}};
  const int last = spec.three_phase ? 2 : 1;

  const double at = static_cast<double>(std::min(step, schedule.end));
  double begin = 0;
  int i = 0;
  for (; i < last && at > phases[i].end_step; ++i) begin = phases[i].end_step;
  const auto& [end_step, from, to] = phases[i];
  const double part = end_step > begin ? (at - begin) / (end_step - begin) : 1.0;
  const bool cosine = spec.anneal_strategy == schema::AnnealStrategy::kCos;
  return {anneal(from.factor, to.factor, part, cosine), anneal(from.momentum, to.momentum, part, cosine)};
}

double cycle_factor(const Schedule& schedule, int64_t step) {
  return one_cycle(schedule, schedule.spec.max_lr / schedule.lr, step).factor;
}

double cycle_momentum(const Schedule& schedule, int64_t step) {
  return one_cycle(schedule, 1.0, step).momentum;
}

void check_cycle(const SchedulerSpec&, double lr) {
  RUN_CHECK(lr > 0, ErrorKind::kRecipe, "scheduler.max_lr scales optimizer.lr, expected optimizer.lr above 0, got {}",
            lr);
}

}  // namespace

const ScheduleDef kOneCycleSchedule{
    .factor = cycle_factor,
    .momentum = cycle_momentum,
    .observe = nullptr,
    .check = check_cycle,
    .uses_length = true,
    .replaces_rate = true,
};

}  // namespace runner::optim
