// Counts of the emulated GPUs of a run, for the store and for documents. Value types.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backends/dist/process_group.h"
#include "backends/gpu/gpu_device.h"
#include "schema/base/json.h"

namespace runner::train {

// One device. Trivially copyable, so that ranks can exchange it.
struct GpuDeviceUse {
  int64_t memory_limit = 0;
  backends::gpu::MemoryStatistics memory;
  // Predicted, for this attempt: number of optimizer steps, and times of training, evaluations and saves.
  int64_t steps = 0;
  backends::gpu::PredictedTime training, evaluation, saving;
  std::optional<backends::gpu::CaptureCounters> captures;  // none: gpu.capture is off
};

struct GpuUse {
  std::string model;                  // "a100-40g"
  std::vector<GpuDeviceUse> devices;  // by rank; only rank 0 until gpu_use_of_all()
};

// Returns the use of this rank's device. `counted`: its predicted times.
GpuUse gpu_use(const backends::gpu::GpuDeviceModel& device, const GpuDeviceUse& counted);
// Returns the use of a GPU that runs one optimizer step in the predicted time.
GpuUse gpu_use_of_step(const backends::ModelledDevice& device, const backends::gpu::PredictedTime& time);
// Returns the use of the GPUs of all ranks. Collective.
GpuUse gpu_use_of_all(const backends::gpu::GpuDeviceModel& device, const GpuDeviceUse& counted,
                      backends::ProcessGroup& ranks, const backends::Site& site);

// Returns {"model", "memory": [{"device", "limit", "allocated": {"current", "peak"}, …, "retries", "refused"}],
// "predicted": predictions for rank 0, null where a divisor is zero, "capture": {"graphs", "replays", "fallbacks"} of
// rank 0, or null}. Times are in seconds.
json::Value gpu_json(const GpuUse& use);

// Convert to and from the document stored with an attempt, {"gpu": …}. gpu_of_document() returns null for other
// devices.
std::string gpu_document(const GpuUse& use);
json::Value gpu_of_document(const std::string& document);
// Returns the number of devices in such a value.
int64_t gpus_in(const json::Value& gpu);

}  // namespace runner::train
