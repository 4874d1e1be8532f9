#include "runner/train/run/device_usage.h"

#include <algorithm>

namespace runner::train {

void DeviceUsage::begin() {
  if (gpu_ != nullptr) gpu_->take_predicted_time();
  first_step_ = session_.trainer.counters.steps;
}

void DeviceUsage::measure(int64_t PeakMemory::*phase, int64_t copies) {
  PeakMemory& peaks = record_.result.peak_memory;
  if (gpu_ == nullptr) {
    peaks.*phase = std::max(peaks.*phase, session_.trainer.memory().total() + copies);
    return;
  }
  // Copies for checkpoints are on the host. Memory reserved by an evaluation stays reserved, so training includes it.
  if (phase == &PeakMemory::training && peaks.evaluation > 0) return;
  peaks.*phase = gpu_->memory_statistics().all.reserved_bytes.peak;
}

void DeviceUsage::count_predicted(backends::gpu::PredictedTime GpuDeviceUse::*phase) {
  if (gpu_ != nullptr) gpu_use_.*phase += gpu_->take_predicted_time();
}

void DeviceUsage::record(backends::ProcessGroup* ranks) {
  if (gpu_ == nullptr) return;
  count_predicted(&GpuDeviceUse::training);
  const int64_t step = session_.trainer.counters.steps;
  gpu_use_.steps = first_step_ ? step - *first_step_ : 0;
  record_.result.gpu = ranks != nullptr ? gpu_use_of_all(*gpu_, gpu_use_, *ranks, {"accounts of devices", step})
                                        : gpu_use(*gpu_, gpu_use_);
  record_.keep_gpu_report();
}

}  // namespace runner::train
