// The model of an emulated TPU: compiles graphs on first use and keeps statistics of all of them.
//
// It models the compile cache and its key, the metrics and counters of PyTorch/XLA, and the cause of every compilation.
// docs/decisions/002-lazy-tpu.md explains how this fits the contract of backend.h. Thread safety: as for DeviceModel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/device_model/modelled_device.h"
#include "backends/tpu/graph.h"
#include "backends/tpu/lowered_graph.h"
#include "backends/tpu/metrics_snapshot.h"

namespace runner::backends::tpu {

// Callback interface for graph compilations, which may take long.
class CompileListener {
 public:
  virtual ~CompileListener() = default;
  // Called when a compilation begins, on the compiling thread. `what`: returns which graph is compiled and why; it is
  // expensive, and any thread may call it until ended().
  virtual void begun(std::function<std::string()> what) = 0;
  virtual void ended() = 0;
};

using EntryBytes = std::span<const std::byte>;

// Storage for what an emulated TPU has compiled, shared with other processes and later runs.
class GraphStore {
 public:
  virtual ~GraphStore() = default;
  // Returns the entry compiled from exactly these bytes, or nullopt. Throws Error(kData) if it is damaged.
  virtual std::optional<std::vector<std::byte>> find(EntryBytes made_from) = 0;
  // Name of the entry in messages: "entry 3f2a… of runner.db".
  virtual std::string name_of(EntryBytes made_from) const = 0;
  // Stores an entry, replacing a previous one.
  virtual void put(EntryBytes made_from, EntryBytes entry) = 0;
};

struct TpuOptions {
  int threads = 1;  // host threads that compute
  Hardware hardware = {};
  // Batches between step markers. 1: a graph ends with each Program. 0: it ends at step markers of the user's code.
  int64_t batches_per_mark = 1;
  bool tracks_graphs = true;        // of graphs; one rank does, since all ranks have the same
  bool own_thread = false;          // executes concurrently with the submitting thread: the process has a core for it
  bool waits_at_mark_step = false;  // until the graph has run
  bool eager = false;               // operations are compiled and run one by one, and submit() is synchronous
  Dialect dialect = kXla2;
  std::optional<int64_t> max_graphs = {};  // graphs that may be compiled; none: no limit
  ShortBatches short_batches = {};
};

class TpuDeviceModel : public DeviceModel {
 public:
  // Loads compiled graphs from `store` and adds new ones to it from now on. `store` must outlive the device.
  virtual void keep_graphs_in(GraphStore& store) = 0;
  // Predicts a graph whose states all exist; compiles nothing.
  virtual GraphForecast forecast(const Program& graph) const = 0;
  // All graphs that were compiled or loaded from the store, in order.
  virtual const std::deque<Graph>& graphs() const = 0;
  virtual MetricsSnapshot metrics() const = 0;
  // Returns the text of a traced graph: graph_text.h. `graph`: its outputs are the tensors to show.
  virtual std::string ir_text(const Program& graph) const = 0;
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
