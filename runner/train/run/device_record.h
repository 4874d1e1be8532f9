// Records the work of a run's device: peak memory of each activity, graphs of an emulated TPU, predicted times and
// counts of emulated GPUs.
//
// Belongs to the training thread.
#pragma once

#include <cstdint>
#include <optional>

#include "backends/dist/process_group.h"
#include "backends/gpu/gpu_device.h"
#include "backends/tpu/tpu_device_model.h"
#include "runner/train/engine/memory_use.h"
#include "runner/train/loop/session.h"
#include "runner/train/run/gpu_use.h"
#include "runner/train/run/persistent_graphs.h"
#include "runner/train/run/run.h"
#include "runner/train/run/run_record.h"
#include "store/device_report.h"

namespace runner::train {

// What a run spends its time and memory on.
enum class Activity { kTraining, kEvaluation, kSaving };

class DeviceRecord {
 public:
  // `graphs`: cache whose new entries are stored with the graphs of an emulated TPU, or null. All arguments must
  // outlive the object.
  DeviceRecord(const RunRequest& request, Session& session, RunRecord& record, PersistentGraphs* graphs);

  // Call when training begins: what came before is not part of a step.
  void begin();
  // Counts the peak memory of an activity that has lasted since the last call, and its predicted GPU time.
  // record_gpus() counts what has passed until then as training. `copies`: bytes on the host in addition.
  void end(Activity activity, int64_t copies = 0);
  // Records the graphs that an emulated TPU has compiled and its metrics.
  void record_graphs();
  // Records the counts of emulated GPUs. `ranks`: gathers those of all ranks (collective), or null.
  void record_gpus(backends::ProcessGroup* ranks);
  // Returns the work of an emulated TPU; none for other devices.
  std::optional<GraphUse> graph_use() const;

 private:
  void measure(int64_t PeakMemory::*peak, int64_t copies);
  void count_predicted(backends::gpu::PredictedTime GpuDeviceUse::*time);

  const RunRequest& request_;
  Session& session_;
  RunRecord& record_;
  PersistentGraphs* const graphs_;
  backends::tpu::TpuDeviceModel* const tpu_;  // null for other devices
  backends::gpu::GpuDeviceModel* const gpu_;  // null for other devices
  store::DeviceReport report_;                // recorded so far
  GpuDeviceUse gpu_use_;                      // predicted GPU time so far
  std::optional<int64_t> first_step_;         // of the attempt; none: training has not begun
};

}  // namespace runner::train
