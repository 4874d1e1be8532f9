// What the model of an emulated GPU knows about an Executable: memory and predicted time of its submissions.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "backends/device_model/device_model.h"
#include "backends/gpu/accounted_step.h"
#include "backends/gpu/gpu_executable.h"

namespace runner::backends::gpu {

class GpuModelStep final : public ModelStep, public std::enable_shared_from_this<GpuModelStep> {
 public:
  // `graph`: what the user's code would compile; null: the Program of the executable. Throws OutOfMemory if a device
  // with the limit of `memory` cannot run it.
  GpuModelStep(std::shared_ptr<const GpuExecutable> executable, const Program* graph, DeviceMemory& memory,
               const GpuMachine& machine)
      : executable_(std::move(executable)),
        graph_(graph != nullptr ? std::make_optional(build_plan(*graph, kGpuLaunches)) : std::nullopt),
        account_(graph_ ? *graph_ : executable_->plan(), memory, machine) {}

  AccountedStep& account() { return account_; }
  const AccountedStep& account() const { return account_; }

 private:
  const std::shared_ptr<const GpuExecutable> executable_;
  const std::optional<Plan> graph_;
  AccountedStep account_;
};

}  // namespace runner::backends::gpu
