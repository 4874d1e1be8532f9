// Measures what a run takes from its device: peak memory of each activity and, on emulated GPUs, predicted times.
//
// Belongs to the training thread.
#pragma once

#include <cstdint>
#include <optional>

#include "backends/dist/process_group.h"
#include "backends/gpu/gpu_device.h"
#include "runner/train/engine/memory_use.h"
#include "runner/train/loop/session.h"
#include "runner/train/run/gpu_use.h"
#include "runner/train/run/run_record.h"

namespace runner::train {

class DeviceUsage {
 public:
  // Both must outlive the object.
  DeviceUsage(Session& session, RunRecord& record)
      : session_(session), record_(record), gpu_(backends::gpu::find_gpu_model(*session.device)) {}

  // Call when training begins: what came before is not part of a step.
  void begin();
  // Updates the peak memory of a phase. `copies`: additional bytes.
  void measure(int64_t PeakMemory::*phase, int64_t copies = 0);
  // Adds the predicted GPU time since the last call to a phase.
  void count_predicted(backends::gpu::PredictedTime GpuDeviceUse::*phase);
  // Adds the counts of the GPU model to the attempt's record. `ranks`: gathers those of all ranks (collective), or
  // null.
  void record(backends::ProcessGroup* ranks);

 private:
  Session& session_;
  RunRecord& record_;
  backends::gpu::GpuDeviceModel* const gpu_;  // null for other devices
  GpuDeviceUse gpu_use_;                      // predicted GPU time so far
  std::optional<int64_t> first_step_;         // of the attempt; none: training has not begun
};

}  // namespace runner::train
