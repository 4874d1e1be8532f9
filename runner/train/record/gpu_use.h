// What the emulated GPUs of a run have counted, as the store keeps it and documents show it.  Values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backends/collectives/collectives.h"
#include "backends/gpu/capture_counters.h"
#include "backends/gpu/memory_statistics.h"
#include "backends/gpu/timeline.h"
#include "schema/json.h"

namespace runner::backends::gpu {
class GpuDevice;  // gpu_device.h
}

namespace runner::train {

// One device.  Plain bytes, so that replicas can hand it to each other.
struct GpuDeviceUse {
  int64_t memory_limit = 0;
  backends::gpu::MemoryStatistics memory;
  // Predicted, of this attempt: so many optimizer steps, evaluations, and states that are saved.
  int64_t steps = 0;
  backends::gpu::PredictedTime training, evaluation, saving;
  std::optional<backends::gpu::CaptureCounters> captures;  // none: gpu.capture is off
};

struct GpuUse {
  std::string model;                  // "a100-40g"
  std::vector<GpuDeviceUse> devices;  // by rank; rank 0 alone as long as the others have not been asked
};

// Of this replica's device, beside what has been counted of its time.
GpuUse gpu_use(const backends::gpu::GpuDevice& device, const GpuDeviceUse& counted);
// Of all; called by all replicas together.
GpuUse gpu_use_of_all(const backends::gpu::GpuDevice& device, const GpuDeviceUse& counted, backends::Collectives& ranks,
                      const backends::Site& site);

// {"model", "memory": [{"device", "limit", "allocated": {"current", "peak"}, …, "retries", "refused"}], "predicted":
// what the clock of rank 0 says, null where nothing is to be divided by, "capture": {"graphs", "replays", "fallbacks"}
// of rank 0, or null}; times in seconds.
json::Value gpu_json(const GpuUse& use);

// How the account of an attempt keeps it, {"gpu": …}, and what is found there; null where it is of another device.
std::string gpu_document(const GpuUse& use);
json::Value gpu_of_document(const std::string& document);
// Devices that such a value tells of.
int64_t gpus_in(const json::Value& gpu);

}  // namespace runner::train
