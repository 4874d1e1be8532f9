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
#include "backends/gpu/launch_schedule.h"
#include "backends/gpu/memory_forecast.h"
#include "backends/gpu/memory_trace.h"

namespace runner::backends::gpu {

class AccountedStep {
 public:
  // `plan` must outlive the object. Throws OutOfMemory if a device with the memory limit of `memory` cannot run the
  // step even by itself.
  AccountedStep(const Plan& plan, DeviceMemory& memory, const GpuMachine& machine)
      : plan_(plan),
        trace_(trace_that_fits(plan, memory.spec())),
        memory_(trace_, memory.owners()),
        launches_(launches_of(plan, machine)),
        schedule_(plan, static_cast<int32_t>(launches_.size())) {}
  AccountedStep(const AccountedStep&) = delete;
  AccountedStep& operator=(const AccountedStep&) = delete;

  const Plan& plan() const { return plan_; }
  StepAccount& memory() { return memory_; }
  const StepAccount& memory() const { return memory_; }
  // One per step of the Plan, followed by its state copies.
  std::span<const Launch> launches() const { return launches_; }
  // Batch inputs that are copied to the device.
  std::span<const TraceInput> batch() const { return trace_.batch; }
  // All-reduces in launch order, each with the launch after which it can start. Valid until the next call.
  std::span<const LaunchSchedule::Due> due(std::span<const ReducedBytes> reduced) { return schedule_.find(reduced); }

 private:
  static MemoryTrace trace_that_fits(const Plan& plan, const MemorySpec& spec) {
    MemoryTrace trace = trace_memory(plan);
    forecast_memory(trace, spec);
    return trace;
  }

  const Plan& plan_;
  const MemoryTrace trace_;
  StepAccount memory_;
  const std::vector<Launch> launches_;
  LaunchSchedule schedule_;
};

}  // namespace runner::backends::gpu
