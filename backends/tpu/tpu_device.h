// The emulated TPU: compiles graphs on first use and keeps statistics of all of them.
//
// The host's kernels compute the Programs. The differences of a TPU are modelled around that: the compile cache and its
// key, PyTorch/XLA's metrics and counters, the cause of every compilation. docs/decisions/002-lazy-tpu.md explains how
// this fits the contract of backend.h. Thread safety: one thread at a time calls a device.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "backends/tpu/compile_listener.h"
#include "backends/tpu/dialect.h"
#include "backends/tpu/graph.h"
#include "backends/tpu/graph_store.h"
#include "backends/tpu/lowered_graph.h"
#include "backends/tpu/metrics_snapshot.h"

namespace runner::backends::tpu {

struct TpuOptions {
  int threads = 1;  // host threads that compute
  Hardware hardware = {};
  // Batches between step markers. 1: a graph ends with each Program. 0: it ends at step markers of the user's code.
  int64_t batches_between_cuts = 1;
  bool keeps_account = true;   // of graphs; one rank does, since all ranks have the same
  bool own_thread = false;     // executes concurrently with the submitting thread: the process has a core for it
  bool waits_at_cuts = false;  // until the graph has run
  bool eager = false;          // operations are compiled and run one by one, and submit() is synchronous
  Dialect dialect = Dialect::kXla2;
  std::optional<int64_t> max_graphs = {};  // graphs that may be compiled; none: no limit
};

class TpuDevice : public Device {
 public:
  // Sets the tensors that each state of every graph contains from now on. Returns the previous ones.
  virtual StateTensors set_state_tensors(StateTensors tensors) = 0;
  // Loads compiled graphs from `store` and adds new ones to it from now on. `store` must outlive the device.
  virtual void keep_graphs_in(GraphStore& store) = 0;
  // Predicts a graph whose states all exist; compiles nothing.
  virtual GraphForecast forecast(const Program& graph) const = 0;
  // All graphs that were compiled or loaded from the store, in order.
  virtual const std::deque<Graph>& graphs() const = 0;
  virtual MetricsSnapshot metrics() const = 0;
  // Warnings about them at the end of a run (run_analysis.h).
  virtual std::vector<std::string> analysis() const = 0;
  // Sets the listener for compilations, which must outlive the device.
  virtual void set_listener(CompileListener& listener) = 0;
};

std::unique_ptr<TpuDevice> make_tpu_device(const TpuOptions& options);

}  // namespace runner::backends::tpu
