// What an emulated TPU has compiled and counted, as the store keeps it.
#pragma once

#include "backends/tpu/tpu_device.h"
#include "runner/train/run.h"
#include "store/device_account.h"

namespace runner::train {

GraphUse graph_use(const backends::tpu::TpuDevice& device);
// Adds the graphs that an account of this device lacks, and counts all executions anew; its metrics stay.
void bring_up_to_date(store::DeviceAccount& account, const backends::tpu::TpuDevice& device);

}  // namespace runner::train
