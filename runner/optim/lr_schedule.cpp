#include "runner/optim/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "backends/tensor/rounding.h"
#include "schema/base/error.h"

namespace runner::optim {

using backends::ceil_div;
using schema::SchedulerSpec;
using schema::SchedulerType;

int64_t to_steps(const schema::Length& length, const RunLength& run) {
  const auto [steps, of_epochs] = run.steps_per_epoch;
  if (length.unit == schema::Unit::kSteps) return length.count;
  if (length.unit == schema::Unit::kRuns) return ceil_div(length.count * run.total_steps, length.divisor);
  if (length.unit == schema::Unit::kEpochs) return ceil_div(length.count * steps, of_epochs * length.divisor);
  const int64_t epochs = length.count / run.samples_per_epoch;
  const int64_t rest = length.count % run.samples_per_epoch;
  return ceil_div(epochs * steps + ceil_div(rest * of_epochs, run.samples_per_step), of_epochs);
}

bool moves_momentum(const SchedulerSpec& spec) {
  return spec.type == SchedulerType::kOneCycle && spec.cycle_momentum;
}

schema::OptimizerHyper under_schedule(schema::OptimizerHyper hyper, const SchedulerSpec& spec) {
  // greater than 0 if the momentum of any step is
  if (moves_momentum(spec)) hyper.momentum = std::max(spec.max_momentum, spec.base_momentum);
  return hyper;
}

LrSchedule::LrSchedule(const SchedulerSpec& spec, double lr, const RunLength& run) : spec_(spec), lr_(lr) {
  RUN_CHECK(spec.type != SchedulerType::kOneCycle || lr > 0, ErrorKind::kRecipe,
            "scheduler.max_lr scales optimizer.lr, expected optimizer.lr above 0, got {}", lr);
  RUN_CHECK(spec.type != SchedulerType::kPolynomial || lr > spec.end, ErrorKind::kRecipe,
            "scheduler.end: expected a value below optimizer.lr, {1}, from which polynomial decays, got {0}", spec.end,
            lr);
  warmup_ = spec.warmup ? to_steps(*spec.warmup, run) : 0;
  length_ = std::max<int64_t>(1, spec.length ? to_steps(*spec.length, run) : run.total_steps);
  every_ = std::max<int64_t>(1, to_steps(spec.every, run));
  steps_per_update_ = spec.compat == schema::Compat::kAccelerate ? run.num_processes : 1;
}

// Clamps `step` to the cycle, so that the factor stays constant after its end.
int64_t LrSchedule::in_cycle(int64_t step) const {
  // AcceleratedScheduler stops only when its count exceeds the total, one step after the last one of the cycle.
  return std::min(step, spec_.compat == schema::Compat::kAccelerate ? length_ : length_ - 1);
}

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

// torch.optim.lr_scheduler.OneCycleLR. `top`: factor at the peak. A phase of length 0 is at its end.
CyclePoint one_cycle(const SchedulerSpec& spec, double top, int64_t length, int64_t position) {
  const double initial = top / spec.div_factor;
  const CyclePoint start{initial, spec.max_momentum};
  const CyclePoint peak{top, spec.base_momentum};
  const CyclePoint finish{initial / spec.final_div_factor, spec.max_momentum};
  const double total = static_cast<double>(length);
  const double rise_end = spec.pct_start * total - 1, fall_end = 2 * spec.pct_start * total - 2;
  const CyclePhase fall = spec.three_phase ? CyclePhase{fall_end, peak, start} : CyclePhase{total - 1, peak, finish};
  const CyclePhase phases[] = {{rise_end, start, peak}, fall, {total - 1, start, finish}};
  const int last = spec.three_phase ? 2 : 1;

  const double at = static_cast<double>(position);
  double begin = 0;
  int i = 0;
  for (; i < last && at > phases[i].end_step; ++i) begin = phases[i].end_step;
  const auto& [end_step, from, to] = phases[i];
  const double part = end_step > begin ? (at - begin) / (end_step - begin) : 1.0;
  const bool cosine = spec.anneal_strategy == schema::AnnealStrategy::kCos;
  return {anneal(from.factor, to.factor, part, cosine), anneal(from.momentum, to.momentum, part, cosine)};
}

double half_wave(double turns) {
  return std::max(0.0, 0.5 * (1.0 + std::cos(std::numbers::pi * turns)));
}

}  // namespace

// Returns the step within `length` whose rate a later step has, as `beyond` says.
int64_t LrSchedule::folded(int64_t step) const {
  switch (spec_.beyond) {
    case schema::Beyond::kFormula: return step;
    case schema::Beyond::kHold: return std::min(step, length_ - 1);
    case schema::Beyond::kRestart: return step % length_;
  }
  return step;
}

int64_t LrSchedule::updates_at_zero(int64_t updates) const {
  const int64_t first = ceil_div(length_, steps_per_update_);
  if (function_ || first >= updates) return 0;
  const bool is_zero = factor(first * steps_per_update_) == 0 && factor((updates - 1) * steps_per_update_) == 0;
  return is_zero ? updates - first : 0;
}

double LrSchedule::factor(int64_t step) const {
  if (function_) return function_(step);
  step = folded(step);
  const double decayed = step < warmup_ ? static_cast<double>(step) / static_cast<double>(warmup_) : decay(step);
  return decayed * plateau_.factor;
}

double LrSchedule::decay(int64_t step) const {
  const int64_t after_warmup = step - warmup_;
  const double decay_steps = static_cast<double>(std::max<int64_t>(1, length_ - warmup_));
  const double progress = static_cast<double>(after_warmup) / decay_steps;
  switch (spec_.type) {
    case SchedulerType::kConstant:
    case SchedulerType::kHook:
    case SchedulerType::kPlateau: return 1.0;
    case SchedulerType::kLinear: return std::max(0.0, static_cast<double>(length_ - step) / decay_steps);
    case SchedulerType::kCosine: return half_wave(2.0 * spec_.cycles * progress);  // rises again beyond the length
    case SchedulerType::kCosineRestarts:
      return progress < 1.0 ? half_wave(std::fmod(spec_.cycles * progress, 1.0)) : 0.0;
    case SchedulerType::kPolynomial: {
      const double left = step < length_ ? std::pow(1.0 - progress, spec_.power) : 0.0;
      return ((lr_ - spec_.end) * left + spec_.end) / lr_;
    }
    case SchedulerType::kOneCycle: return one_cycle(spec_, spec_.max_lr / lr_, length_, in_cycle(step)).factor;
    case SchedulerType::kStep:
    case SchedulerType::kExponential: {
      const int64_t decays = after_warmup / every_;
      return std::pow(spec_.gamma, static_cast<double>(decays));
    }
  }
  return 1.0;
}

std::optional<double> LrSchedule::momentum(int64_t step) const {
  if (!moves_momentum(spec_)) return std::nullopt;
  return one_cycle(spec_, 1.0, length_, in_cycle(folded(step))).momentum;
}

bool LrSchedule::observe(double metric, bool maximizes) {
  if (spec_.type != SchedulerType::kPlateau) return false;
  bool lowered = false;
  for (int64_t call = 0; call < steps_per_update_; ++call) lowered |= observe_once(metric, maximizes);
  return lowered;
}

// torch.optim.lr_scheduler.ReduceLROnPlateau.step
bool LrSchedule::observe_once(double metric, bool maximizes) {
  if (improves(metric, maximizes)) {
    plateau_.best = metric;
    plateau_.bad_evaluations = 0;
  } else {
    ++plateau_.bad_evaluations;
  }
  if (plateau_.cooldown > 0) {
    --plateau_.cooldown;
    plateau_.bad_evaluations = 0;
  }
  if (plateau_.bad_evaluations <= spec_.patience) return false;
  plateau_.cooldown = spec_.cooldown;
  plateau_.bad_evaluations = 0;
  const double rate = lr_ * plateau_.factor;
  const double lower = std::max(rate * spec_.factor, spec_.min_lr);
  if (rate - lower <= spec_.eps) return false;
  plateau_.factor = lower / lr_;
  return true;
}

bool LrSchedule::improves(double metric, bool maximizes) const {
  const double sign = maximizes ? 1.0 : -1.0;  // sign of an improvement
  const double best = plateau_.best.value_or(-sign * std::numeric_limits<double>::infinity());
  const bool relative = spec_.threshold_mode == schema::ThresholdMode::kRel;
  const double bar = relative ? best * (1.0 + sign * spec_.threshold) : best + sign * spec_.threshold;
  return maximizes ? metric > bar : metric < bar;
}

}  // namespace runner::optim
