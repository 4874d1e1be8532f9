#include "runner/optim/lr_schedule.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "backends/tensor/rounding.h"
#include "runner/optim/schedule_def.h"
#include "schema/recipe/choice_table.h"

namespace runner::optim {

using backends::ceil_div;
using schema::SchedulerType;

namespace {

#define RUNNER_SCHEDULE_ROW(Name) {SchedulerType::k##Name, &k##Name##Schedule},
constexpr schema::ChoiceRow<SchedulerType, const ScheduleDef*> kSchedules[] = {RUNNER_SCHEDULES(RUNNER_SCHEDULE_ROW)};
#undef RUNNER_SCHEDULE_ROW
static_assert(schema::has_all_choices(kSchedules));

using Wide = __int128;  // products of extreme lengths and runs exceed 64 bits

int64_t rounded_up(Wide a, Wide b) {
  return static_cast<int64_t>(std::min<Wide>((a + b - 1) / b, std::numeric_limits<int64_t>::max()));
}

}  // namespace

const ScheduleDef& def_of(SchedulerType type) {
  return *schema::value_of(kSchedules, type);
}

int64_t to_steps(const schema::Length& length, const RunLength& run) {
  const auto [steps, of_epochs] = run.steps_per_epoch;
  if (length.unit == schema::Unit::kSteps) return length.count;
  const auto count = static_cast<Wide>(length.count);
  if (length.unit == schema::Unit::kRuns) return rounded_up(count * run.total_steps, length.divisor);
  if (length.unit == schema::Unit::kEpochs) return rounded_up(count * steps, Wide{of_epochs} * length.divisor);
  const Wide epochs = count / run.samples_per_epoch, rest = count % run.samples_per_epoch;
  return rounded_up(epochs * steps + rounded_up(rest * of_epochs, run.samples_per_step), of_epochs);
}

bool moves_momentum(const SchedulerSpec& spec) {
  return def_of(spec.type).momentum != nullptr && spec.cycle_momentum;
}

bool observes_metrics(const SchedulerSpec& spec) {
  return def_of(spec.type).observe != nullptr;
}

namespace {

bool is_part_of_run(const std::optional<schema::Length>& length) {
  return length && length->unit == schema::Unit::kRuns;
}

bool lasts_as_long_as_run(const SchedulerSpec& spec) {
  return def_of(spec.type).uses_length && !spec.length;
}

}  // namespace

bool ends_with_run(const SchedulerSpec& spec) {
  return is_part_of_run(spec.warmup) || is_part_of_run(spec.length) || is_part_of_run(spec.every) ||
         lasts_as_long_as_run(spec);
}

std::vector<std::string> keys_without_run(const SchedulerSpec& spec, int64_t steps) {
  std::vector<std::string> keys;
  if (lasts_as_long_as_run(spec))
    keys.push_back(fmt::format(
        "scheduler.length='{} steps' and scheduler.beyond=hold (the last rate) or restart (the schedule again)",
        steps));
  const auto add = [&](const char* key, const std::optional<schema::Length>& length) {
    if (is_part_of_run(length)) keys.push_back(fmt::format("scheduler.{} in steps or epochs instead of %", key));
  };
  add("length", spec.length);
  add("warmup", spec.warmup);
  add("every", spec.every);
  return keys;
}

schema::OptimizerHyper under_schedule(schema::OptimizerHyper hyper, const SchedulerSpec& spec) {
  // greater than 0 if the momentum of any step is
  if (moves_momentum(spec)) hyper.momentum = std::max(spec.max_momentum, spec.base_momentum);
  return hyper;
}

LrSchedule::LrSchedule(const SchedulerSpec& spec, double lr, const RunLength& run) : spec_(spec), lr_(lr) {
  const ScheduleDef& def = def_of(spec.type);
  if (def.check != nullptr) def.check(spec, lr);
  warmup_ = spec.warmup ? to_steps(*spec.warmup, run) : 0;
  length_ = std::max<int64_t>(1, spec.length ? to_steps(*spec.length, run) : run.total_steps);
  every_ = std::max<int64_t>(1, to_steps(spec.every, run));
  steps_per_update_ = spec.compat == schema::Compat::kAccelerate ? run.num_processes : 1;
}

Schedule LrSchedule::schedule() const {
  // AcceleratedScheduler stops only when its count exceeds the total, one step after the last one of the cycle.
  const int64_t end = spec_.compat == schema::Compat::kAccelerate ? length_ : length_ - 1;
  return {spec_, lr_, warmup_, length_, every_, end};
}

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

int64_t LrSchedule::updates_after_rise(int64_t updates) const {
  const int64_t first = ceil_div(length_, steps_per_update_);
  if (function_ || spec_.beyond != schema::Beyond::kFormula || first >= updates) return 0;
  const double last = factor((first - 1) * steps_per_update_);
  const bool rises = factor(first * steps_per_update_) > last || factor((updates - 1) * steps_per_update_) > last;
  return rises ? updates - first : 0;
}

double LrSchedule::factor(int64_t step, int32_t optimizer) const {
  if (function_) return function_(step, optimizer);
  step = folded(step);
  const double factor = step < warmup_ ? static_cast<double>(step) / static_cast<double>(warmup_)
                                       : def_of(spec_.type).factor(schedule(), step);
  return factor * plateau_.factor;
}

std::optional<double> LrSchedule::momentum(int64_t step) const {
  if (!moves_momentum(spec_)) return std::nullopt;
  return def_of(spec_.type).momentum(schedule(), folded(step));
}

bool LrSchedule::observe(double metric, bool maximizes) {
  const ScheduleDef& def = def_of(spec_.type);
  if (def.observe == nullptr) return false;
  bool lowered = false;
  for (int64_t call = 0; call < steps_per_update_; ++call)
    lowered |= def.observe(schedule(), plateau_, metric, maximizes);
  return lowered;
}

}  // namespace runner::optim
