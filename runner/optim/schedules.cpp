// Schedules whose factor is one formula. Formulas: the functions of the same names in transformers.optimization; StepLR
// and ExponentialLR in torch.optim.lr_scheduler.
#include <cmath>
#include <numbers>
#include <tuple>

#include "runner/optim/schedule_def.h"
#include "schema/base/error.h"

namespace runner::optim {
namespace {

double unchanged(const Schedule&, int64_t) {
  return 1;
}

double linear(const Schedule& schedule, int64_t step) {
  return std::max(0.0, static_cast<double>(schedule.length - step) / schedule.decay_steps());
}

double half_wave(double turns) {
  return std::max(0.0, 0.5 * (1.0 + std::cos(std::numbers::pi * turns)));
}

// Rises again after the length.
double cosine(const Schedule& schedule, int64_t step) {
  return half_wave(2.0 * schedule.spec.cycles * schedule.progress(step));
}

double cosine_restarts(const Schedule& schedule, int64_t step) {
  const double progress = schedule.progress(step);
  return progress < 1.0 ? half_wave(std::fmod(schedule.spec.cycles * progress, 1.0)) : 0.0;
}

double polynomial(const Schedule& schedule, int64_t step) {
  const auto& [spec, lr] = std::tie(schedule.spec, schedule.lr);
  const double left = step < schedule.length ? std::pow(1.0 - schedule.progress(step), spec.power) : 0.0;
  return ((lr - spec.end) * left + spec.end) / lr;
}

void check_end(const SchedulerSpec& spec, double lr) {
  RUN_CHECK(lr > spec.end, ErrorKind::kRecipe,
            "scheduler.end: expected a value below optimizer.lr, {1}, from which polynomial decays, got {0}", spec.end,
            lr);
}

double decays(const Schedule& schedule, int64_t step) {
  const int64_t times = (step - schedule.warmup) / schedule.every;
  return std::pow(schedule.spec.gamma, static_cast<double>(times));
}

constexpr ScheduleDef of_formula(double (*factor)(const Schedule&, int64_t), bool uses_length,
                                 void (*check)(const SchedulerSpec&, double) = nullptr) {
  return {.factor = factor,
          .momentum = nullptr,
          .observe = nullptr,
          .check = check,
          .uses_length = uses_length,
          .replaces_rate = false};
}

}  // namespace

const ScheduleDef kConstantSchedule = of_formula(unchanged, false);
const ScheduleDef kLinearSchedule = of_formula(linear, true);
const ScheduleDef kCosineSchedule = of_formula(cosine, true);
const ScheduleDef kCosineRestartsSchedule = of_formula(cosine_restarts, true);
const ScheduleDef kPolynomialSchedule = of_formula(polynomial, true, check_end);
const ScheduleDef kStepSchedule = of_formula(decays, false);
const ScheduleDef kExponentialSchedule = of_formula(decays, false);
// LrSchedule::set_function() replaces it.
const ScheduleDef kHookSchedule = of_formula(unchanged, false);

}  // namespace runner::optim
