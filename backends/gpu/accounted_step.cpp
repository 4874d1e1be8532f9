#include "backends/gpu/accounted_step.h"

#include <algorithm>

#include "backends/gpu/last_write.h"

namespace runner::backends::gpu {

AccountedStep::AccountedStep(const Plan& plan, DeviceMemory& memory, const GpuMachine& machine)
    : plan_(plan),
      trace_(trace_memory(plan)),
      forecast_(forecast_memory(trace_, memory.spec())),
      memory_(trace_, memory.owners()),
      launches_(launches_of(plan, machine)) {}

// Optimizer steps repeat the same request, so the result is cached. State copies come after all steps.
std::span<const AccountedStep::Reduction> AccountedStep::due(std::span<const ReducedBytes> reduced) {
  if (std::ranges::equal(reduced, reduced_)) return due_;
  reduced_.assign(reduced.begin(), reduced.end());
  due_.clear();
  const auto steps = static_cast<int32_t>(plan_.steps.size()), copies = static_cast<int32_t>(plan_.copies.size());
  for (size_t i = 0; i < reduced.size(); ++i) {
    const StateBytes& bytes = reduced[i].bytes;
    if (i == 0 || reduced[i].bucket != reduced[i - 1].bucket) due_.push_back({kBeforeAll, 0});
    const int32_t launch = last_write(plan_, bytes);
    due_.back().launch = std::max(due_.back().launch, launch == steps ? steps + copies - 1 : launch);
    due_.back().bytes += static_cast<int64_t>(bytes.end - bytes.begin);
  }
  std::ranges::stable_sort(due_, {}, &Reduction::launch);
  return due_;
}

}  // namespace runner::backends::gpu
