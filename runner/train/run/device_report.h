// Converts what an emulated TPU has compiled and counted to rows of the store.
#pragma once

#include "backends/tpu/tpu_device_model.h"
#include "runner/train/run/run.h"
#include "store/device_report.h"

namespace runner::train {

GraphUse graph_use(const backends::tpu::TpuDeviceModel& device);
// Adds the graphs that the report lacks and updates all execution counts. Leaves its metrics unchanged.
void bring_up_to_date(store::DeviceReport& report, const backends::tpu::TpuDeviceModel& device);

}  // namespace runner::train
