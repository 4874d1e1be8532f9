// The emulated TPU: graphs that are compiled when they are first asked for, and an account of all of them.
//
// Programs are computed by the host's kernels; what a TPU does differently happens around that: the compile cache and
// its key, the metrics and counters of PyTorch/XLA, the reasons of every compilation.  docs/decisions/002-lazy-tpu.md
// says how it fits the contract of backend.h.  Thread safety: one thread at a time calls a device.
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
  int threads = 1;  // of the host, that compute
  Hardware hardware = {};
  // 1: a graph ends where a Program does.  Else it ends at a step marker, which comes each so many batches, or where
  // the user's code has it (0).
  int64_t batches_between_cuts = 1;
  bool keeps_account = true;   // of graphs: one replica does, as all have the same
  bool own_thread = false;     // executes beside the one that submits: the process has a core for it
  bool waits_at_cuts = false;  // until the graph has run
  bool eager = false;          // operations are compiled and run one by one, and submit() works inside itself
  Dialect dialect = Dialect::kXla2;
  std::optional<int64_t> max_graphs = {};  // that may be compiled; none: any number
};

class TpuDevice : public Device {
 public:
  // The tensors that each state of every graph holds from now on.  Returns what they were.
  virtual StateTensors set_state_tensors(StateTensors tensors) = 0;
  // From now on what is there is not compiled, and what is compiled is kept there; it must outlive the device.
  virtual void keep_graphs_in(GraphStore& store) = 0;
  // Of a graph whose states all exist; compiles nothing.
  virtual GraphForecast forecast(const Program& graph) const = 0;
  // All graphs that have been compiled, or taken from the store, in order.
  virtual const std::deque<Graph>& graphs() const = 0;
  virtual MetricsSnapshot metrics() const = 0;
  // What of them is worth a word at the end of a run (run_analysis.h).
  virtual std::vector<std::string> analysis() const = 0;
  // Is told of every compilation; it must outlive the device.
  virtual void set_listener(CompileListener& listener) = 0;
};

std::unique_ptr<TpuDevice> make_tpu_device(const TpuOptions& options);

}  // namespace runner::backends::tpu
