// Memory and predicted time of an Executable's submissions on a real GPU.
//
// The modelled graph may differ from the one that runs: if ranks share their weights in host memory, each computes only
// a part of what it would do on a GPU of its own. Thread safety: one thread at a time, the host's.
#pragma once

#include <span>
#include <vector>

#include "backends/exec/backend.h"
#include "backends/exec/plan.h"
#include "backends/gpu/device_memory.h"
#include "backends/gpu/launch.h"
#include "backends/gpu/memory_forecast.h"
#include "backends/gpu/memory_trace.h"

namespace runner::backends::gpu {

class AccountedStep {
 public:
  // `plan` must outlive the object. Throws OutOfMemory if a device with the memory limit of `memory` cannot run the
  // step even by itself.
  AccountedStep(const Plan& plan, DeviceMemory& memory, const GpuMachine& machine);
  AccountedStep(const AccountedStep&) = delete;
  AccountedStep& operator=(const AccountedStep&) = delete;

  const Plan& plan() const { return plan_; }
  StepAccount& memory() { return memory_; }
  const StepAccount& memory() const { return memory_; }
  const MemoryForecast& memory_forecast() const { return forecast_; }
  // One per step of the Plan, followed by its state copies.
  std::span<const Launch> launches() const { return launches_; }
  // Batch inputs that are copied to the device.
  std::span<const TraceInput> batch() const { return trace_.batch; }
  // All-reduces in launch order, each with the launch after which it can start. Valid until the next call.
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
  std::vector<ReducedBytes> reduced_;  // argument that due_ was computed for
  std::vector<Reduction> due_;
};

}  // namespace runner::backends::gpu
