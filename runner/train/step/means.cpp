#include "runner/train/step/means.h"

#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "backends/runtime/spans.h"
#include "runner/train/replicas/reduction.h"

namespace runner::train {

Means::Means(const StepBuilder& builder, backends::Device& device, DeviceArrays& arrays, Executor& executor,
             StepMetrics& metrics, backends::Collectives* local)
    : builder_(builder), device_(device), arrays_(arrays), executor_(executor), metrics_(metrics), local_(local) {}

double Means::take_loss() {
  const auto [loss, weight] = take_sums();
  return weight == 0 ? std::numeric_limits<double>::quiet_NaN() : loss / weight;
}

std::array<double, 2> Means::take_sums() {
  std::array<double, 2> sums = arrays_.take_logged_sums();
  if (local_ != nullptr)
    local_->all_reduce({backends::DType::kF64, backends::Shape{2}}, std::as_writable_bytes(std::span(sums)),
                       backends::Reduction::kSum, executor_.site("the loss"));
  return sums;
}

MetricSums Means::take_metrics() {
  const MetricSums mine = std::exchange(metrics_.ended, {});
  const bool merges = local_ != nullptr && builder_.varies(/*training=*/true);
  return merges ? merged(mine, *local_, executor_.site("metrics")) : mine;
}

// What is in no point yet is with rank 0 alone.
void Means::average() {
  const backends::ScopedSpan span(backends::SpanKind::kOptimizer, "average weights");
  device_.note(backends::HostEvent::kStateUse);
  const std::vector<DeviceArray>& arrays = builder_.layout().arrays();
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (!arrays_.is_of_parameters(arrays[i])) continue;
    std::vector<std::byte> bytes = arrays_.read(static_cast<int32_t>(i));
    local_->all_reduce(arrays[i].type, bytes, backends::Reduction::kSum, executor_.site("weights"));
    const std::span values(reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float));
    for (float& value : values) value /= static_cast<float>(local_->size());
    arrays_.write(static_cast<int32_t>(i), bytes);
  }
  const std::array<double, 2> logged = take_sums();
  arrays_.write(builder_.layout().find(Role::kSum, 0, kLoggedSum), std::as_bytes(std::span(logged)));
  MetricSums all = take_metrics();
  if (local_->rank() == 0) metrics_.ended = std::move(all);
}

}  // namespace runner::train
