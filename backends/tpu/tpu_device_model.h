// The model of an emulated TPU: compiles graphs on first use and keeps statistics of all of them.
//
// It models the compile cache and its key, the metrics and counters of PyTorch/XLA, and the cause of every compilation.
// docs/decisions/002-lazy-tpu.md explains how this fits the contract of backend.h. Thread safety: as for DeviceModel.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/device_model/modelled_device.h"
#include "backends/tpu/compile_listener.h"
#include "backends/tpu/graph.h"
#include "backends/tpu/graph_store.h"
#include "backends/tpu/lowered_graph.h"
#include "backends/tpu/metrics_snapshot.h"
#include "backends/tpu/tpu_options.h"

namespace runner::backends::tpu {

class TpuDeviceModel : public DeviceModel {
 public:
  // Loads compiled graphs from `store` and adds new ones to it from now on. `store` must outlive the device.
  virtual void keep_graphs_in(GraphStore& store) = 0;
  // Predicts a graph whose states all exist; compiles nothing.
  virtual GraphForecast forecast(const Program& graph) const = 0;
  // All graphs that were compiled or loaded from the store, in order.
  virtual const std::deque<Graph>& graphs() const = 0;
  virtual MetricsSnapshot metrics() const = 0;
  // Sets the listener for compilations, which must outlive the device.
  virtual void set_listener(CompileListener& listener) = 0;
};

// Makes an emulated TPU with its model.
std::unique_ptr<ModelledDevice> make_tpu_device(const TpuOptions& options);
// Returns the model of such a device, or null for other devices.
TpuDeviceModel* find_tpu_model(const ModelledDevice& device);
// Returns the model of such a device.
TpuDeviceModel& model_of_tpu(const ModelledDevice& device);

}  // namespace runner::backends::tpu
