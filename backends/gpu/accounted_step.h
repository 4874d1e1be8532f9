// What the submissions of an Executable come to on a real GPU: memory, and predicted time.
//
// The graph that is accounted for may be another than the one that runs: where replicas share their weights in the
// host's memory, each runs a share of what a GPU of its own would do.  Thread safety: one thread at a time, the host's.
#pragma once

#include <span>
#include <vector>

#include "backends/backend.h"
#include "backends/gpu/device_memory.h"
#include "backends/gpu/launch.h"
#include "backends/gpu/memory_forecast.h"
#include "backends/gpu/memory_trace.h"
#include "backends/plan/plan.h"

namespace runner::backends::gpu {

class AccountedStep {
 public:
  // The Plan must outlive it.  Throws OutOfMemory where a device with the limit of `memory` has too little for it
  // alone.
  AccountedStep(const Plan& plan, DeviceMemory& memory, const GpuMachine& machine);
  AccountedStep(const AccountedStep&) = delete;
  AccountedStep& operator=(const AccountedStep&) = delete;

  const Plan& plan() const { return plan_; }
  StepAccount& memory() { return memory_; }
  const StepAccount& memory() const { return memory_; }
  const MemoryForecast& memory_forecast() const { return forecast_; }
  // Of each step of the Plan, then of its copies of states.
  std::span<const Launch> launches() const { return launches_; }
  // What has to be copied of a batch.
  std::span<const TraceInput> batch() const { return trace_.batch; }
  // All-reduces, by the launch behind which they are due, in their order.  Valid until the next call.
  struct Reduction {
    int32_t launch;
    int64_t bytes;
  };
  std::span<const Reduction> due(std::span<const ReducedBytes> reduced);

 private:
  const Plan& plan_;
  const MemoryTrace trace_;
  const MemoryForecast forecast_;
  StepAccount memory_;
  const std::vector<Launch> launches_;
  std::vector<ReducedBytes> reduced_;  // that due_ are of
  std::vector<Reduction> due_;
};

}  // namespace runner::backends::gpu
