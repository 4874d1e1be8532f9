#include "runner/train/step/lost_gradient.h"

#include <cmath>

#include <fmt/format.h>

#include "backends/ir/ops.h"

namespace runner::train {

namespace ops = backends::ops;
using backends::Value;

// The values of each element stay the user's, so that a device rounds them as without these outputs.
int output_lost_gradient(backends::Program& program, std::span<const GradientAddition> additions) {
  Value lost, all;
  const auto add_to = [](Value& total, Value elements) {
    const Value sum = ops::on_host(ops::sum(elements));
    total = total ? ops::add(total, sum) : sum;
  };
  for (const GradientAddition& addition : additions) {
    const Value held{&program, addition.held}, added{&program, addition.added}, sum{&program, addition.sum};
    add_to(lost, ops::mul(ops::sign(held), ops::sub(added, ops::sub(sum, held))));
    add_to(all, ops::abs(added));
  }
  const auto first = static_cast<int>(program.outputs().size());
  program.output("lost gradient", lost.id);
  program.output("added gradient", all.id);
  return first;
}

void LostGradient::add(double lost, double all) {
  if (!std::isfinite(lost) || !std::isfinite(all)) return;
  lost_ += lost;
  all_ += all;
}

std::optional<std::string> LostGradient::warning() const {
  constexpr double kNoticeable = 0.05;
  if (lost_ <= kNoticeable * all_) return std::nullopt;
  return fmt::format(
      "gradient accumulation in the TPU's bf16 lost {:.0f} % of the gradients: one below 1/256 of the sum so far does "
      "not change it; use a larger data.batch_size with fewer gradient_accumulation_steps, or more processes",
      100 * lost_ / all_);
}

}  // namespace runner::train
