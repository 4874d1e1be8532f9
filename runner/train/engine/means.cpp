#include "runner/train/engine/means.h"

#include <limits>
#include <span>
#include <utility>

#include "runner/train/engine/reduction.h"
#include "runner/train/engine/stepper.h"

namespace runner::train {

LossMeans::LossMeans(const EngineParts& parts)
    : parts_(parts), local_(trains_locally(parts.builder.recipe(), parts.ranks) ? parts.ranks : nullptr) {}

double LossMeans::take_loss() {
  const auto [loss, weight] = take_sums();
  return weight == 0 ? std::numeric_limits<double>::quiet_NaN() : loss / weight;
}

std::array<double, 2> LossMeans::take_sums() {
  std::array<double, 2> sums = parts_.arrays.take_logged_sums();
  if (local_ != nullptr)
    local_->all_reduce({backends::DType::kF64, backends::Shape{2}}, std::as_writable_bytes(std::span(sums)),
                       backends::Reduction::kSum, parts_.executor.site("the loss"));
  return sums;
}

MetricSums LossMeans::take_metrics() {
  const MetricSums mine = std::exchange(parts_.metrics.ended, {});
  const bool merges = local_ != nullptr && parts_.builder.varies(/*training=*/true);
  return merges ? merged(mine, *local_, parts_.executor.site("metrics")) : mine;
}

void LossMeans::gather() {
  const backends::ModelPause pause = parts_.arrays.pause_model();
  const std::array<double, 2> logged = take_sums();
  parts_.arrays.write(parts_.builder.layout().find(ArrayRole::kSum, 0, kLoggedSum), std::as_bytes(std::span(logged)));
  MetricSums all = take_metrics();
  if (local_->rank() == 0) parts_.metrics.ended = std::move(all);
}

}  // namespace runner::train
