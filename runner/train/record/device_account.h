// What an emulated TPU has compiled and counted, as the store keeps it.
#pragma once

#include "backends/tpu/tpu_device.h"
#include "store/device_account.h"

namespace runner::train {

// Without its metrics.
store::DeviceAccount account_of(const backends::tpu::TpuDevice& device);

}  // namespace runner::train
