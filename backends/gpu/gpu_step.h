// What the model of an emulated GPU knows about an Executable: memory and predicted time of its submissions on a real
// GPU.
//
// The modelled graph may differ from the one that runs: if ranks share their weights in host memory, each computes only
// a part of what it would do on a GPU of its own. Thread safety: only for the host's thread.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "backends/device_model/device_model.h"
#include "backends/exec/backend.h"
#include "backends/exec/launch_schedule.h"
#include "backends/exec/plan.h"
#include "backends/gpu/device_memory.h"
#include "backends/gpu/gpu_executable.h"
#include "backends/gpu/launch.h"
#include "backends/gpu/memory_trace.h"

namespace runner::backends::gpu {

class ModelledStep {
 public:
  // `plan` must outlive the object. Throws OutOfMemory if a device with the memory limit of `memory` cannot run the
  // step even by itself.
  ModelledStep(const Plan& plan, DeviceMemory& memory, const GpuMachine& machine)
      : plan_(plan),
        trace_(trace_that_fits(plan, memory.spec())),
        memory_(trace_, memory.owners()),
        launches_(launches_of(plan, machine)),
        schedule_(plan, static_cast<int32_t>(launches_.size())) {}
  ModelledStep(const ModelledStep&) = delete;
  ModelledStep& operator=(const ModelledStep&) = delete;

  const Plan& plan() const { return plan_; }
  StepAllocations& memory() { return memory_; }
  const StepAllocations& memory() const { return memory_; }
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
  StepAllocations memory_;
  const std::vector<Launch> launches_;
  LaunchSchedule schedule_;
};

class GpuStep final : public ModelStep, public std::enable_shared_from_this<GpuStep> {
 public:
  // `graph`: what the user's code would compile; null: the Program of the executable. Throws OutOfMemory if a device
  // with the limit of `memory` cannot run it.
  GpuStep(std::shared_ptr<const GpuExecutable> executable, const Program* graph, DeviceMemory& memory,
          const GpuMachine& machine)
      : executable_(std::move(executable)),
        graph_(graph != nullptr ? std::make_optional(build_plan(*graph, kGpuLaunches)) : std::nullopt),
        modelled_(graph_ ? *graph_ : executable_->plan(), memory, machine) {}

  ModelledStep& modelled() { return modelled_; }
  const ModelledStep& modelled() const { return modelled_; }

 private:
  const std::shared_ptr<const GpuExecutable> executable_;
  const std::optional<Plan> graph_;
  ModelledStep modelled_;
};

}  // namespace runner::backends::gpu
