#include "runner/optim/bf16_warnings.h"

#include <algorithm>

#include <fmt/format.h>

#include "runner/optim/optimizer_def.h"
#include "runner/optim/schedule_def.h"

namespace runner::optim {
namespace {

// bf16 has no number between 1 − 2⁻⁸ and 1; the midpoint rounds to 1.
bool becomes_one_in_bf16(double number) {
  return number < 1 && number >= 1 - 0x1p-9;
}

// Whether a number would be subnormal and does not round up to the smallest normal number.
bool becomes_zero_in_bf16(double number) {
  return number > 0 && number < 0x1p-126 - 0x1p-134;
}

}  // namespace

std::vector<NumberWarning> number_warnings_in_bf16(schema::OptimizerType type, const OptimizerHyper& hyper,
                                                   schema::SchedulerType scheduler) {
  const OptimizerDef& def = def_of(type);
  std::vector<NumberWarning> warnings;
  for (const DecayRate& rate : std::span<const DecayRate>(def.decay_rates)) {
    const double value = hyper.*rate.value;
    if (becomes_one_in_bf16(value))
      warnings.push_back({rate.key, fmt::format(": {} rounds to 1 in the TPU's bf16, so {} never decays; use at most "
                                                "0.99609375, the largest bf16 number below 1",
                                                value, rate.what)});
  }
  const double decay = 1 - hyper.lr * hyper.weight_decay;
  if (def.weight_decay == WeightDecay::kOfParameters && !def_of(scheduler).replaces_rate && becomes_one_in_bf16(decay))
    warnings.push_back(
        {"weight_decay",
         fmt::format(" has no effect: 1 - lr * weight_decay is {}, which rounds to 1 in the TPU's bf16", decay)});
  if (def.divides_by_eps && becomes_zero_in_bf16(hyper.eps))
    warnings.push_back({"eps", fmt::format(": {} rounds to 0 in the TPU's bf16, so a gradient that was always 0 is "
                                           "divided by 0; use at least 1.1754944e-38, the smallest bf16 number above 0",
                                           hyper.eps)});
  return warnings;
}

std::vector<std::string> bf16_warnings(const schema::ReadResult& recipe) {
  std::vector<std::string> warnings;
  const schema::OptimizerSpec& spec = recipe.recipe.optimizer;
  const auto warnings_of = [&](const OptimizerHyper& hyper) {
    return number_warnings_in_bf16(spec.type, hyper, recipe.recipe.scheduler.type);
  };
  const auto warn = [&](const std::string& path, std::string_view text) {
    warnings.push_back(fmt::format("{}{}{}", recipe.place_text(path), path, text));
  };
  const std::vector<NumberWarning> of_all = warnings_of(spec.hyper);
  for (const NumberWarning& warning : of_all) warn(fmt::format("optimizer.{}", warning.key), warning.text);
  for (size_t i = 0; i < spec.groups.size(); ++i)
    for (const NumberWarning& warning : warnings_of(spec.groups[i].hyper))
      if (std::ranges::find(of_all, warning) == of_all.end())
        warn(fmt::format("optimizer.groups[{}].{}", i, warning.key), warning.text);
  return warnings;
}

}  // namespace runner::optim
