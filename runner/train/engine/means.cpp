#include "runner/train/engine/means.h"

#include <limits>
#include <span>
#include <utility>

#include "runner/train/engine/reduction.h"

namespace runner::train {

LossMeans::LossMeans(const StepBuilder& builder, DeviceArrays& arrays, Executor& executor, StepMetrics& metrics,
                     backends::ProcessGroup* local)
    : builder_(builder), arrays_(arrays), executor_(executor), metrics_(metrics), local_(local) {}

double LossMeans::take_loss() {
  const auto [loss, weight] = take_sums();
  return weight == 0 ? std::numeric_limits<double>::quiet_NaN() : loss / weight;
}

std::array<double, 2> LossMeans::take_sums() {
  std::array<double, 2> sums = arrays_.take_logged_sums();
  if (local_ != nullptr)
    local_->all_reduce({backends::DType::kF64, backends::Shape{2}}, std::as_writable_bytes(std::span(sums)),
                       backends::Reduction::kSum, executor_.site("the loss"));
  return sums;
}

MetricSums LossMeans::take_metrics() {
  const MetricSums mine = std::exchange(metrics_.ended, {});
  const bool merges = local_ != nullptr && builder_.varies(/*training=*/true);
  return merges ? merged(mine, *local_, executor_.site("metrics")) : mine;
}

void LossMeans::gather() {
  const backends::ModelPause pause = arrays_.pause_model();
  const std::array<double, 2> logged = take_sums();
  arrays_.write(builder_.layout().find(Role::kSum, 0, kLoggedSum), std::as_bytes(std::span(logged)));
  MetricSums all = take_metrics();
  if (local_->rank() == 0) metrics_.ended = std::move(all);
}

}  // namespace runner::train
