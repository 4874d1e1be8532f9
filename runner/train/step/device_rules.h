// Properties of each backend that training depends on, and its device factory. One row per backend.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "backends/device_model/modelled_device.h"
#include "backends/dist/process_group.h"
#include "backends/tpu/scalar_signature.h"
#include "backends/tpu/tpu_data_sheet.h"
#include "schema/recipe/recipe.h"

namespace runner::train {

struct DeviceRules {
  bool ranks_are_processes;  // otherwise threads of one process, whose devices share memory
  // Records lazily like PyTorch/XLA: the user's code becomes graphs, cut at step marks, compiled once and cached beyond
  // the run. Scalars may be part of them.
  bool traces_graphs;
  bool ranks_run_one_graph;  // all ranks must have traced the same graph
  bool has_loader;        // an asynchronous loader copies batches to the device ahead of time, with queues and threads
  bool has_bf16_floats;   // a bf16 recipe makes all floats bf16, so no casts are needed
  bool has_bucket_cap;    // the recipe sets the size of the buckets in which gradients are all-reduced (gpu.bucket_cap)
  bool has_allocator;     // the device reserves memory in segments, like PyTorch's caching allocator
  bool has_start_method;  // host processes are forked or spawned (tpu.start_method), which determines their memory
  // Makes the device of one rank. `ranks`: process group, or null for a single process; must outlive the device.
  // `own_thread`: whether the device executes on a thread of its own; none to decide by the number of free cores. Its
  // worker threads block signals.
  std::unique_ptr<backends::ModelledDevice> (*make)(const schema::Recipe& recipe, backends::ProcessGroup* ranks,
                                                    std::optional<bool> own_thread);
};

const DeviceRules& device_rules(const schema::Recipe& recipe);

// Returns the recipe's limit for one wait in a collective, rounded up to milliseconds.
std::chrono::milliseconds collective_timeout(const schema::Recipe& recipe);

// Returns the number of threads of this rank: `threads` of the recipe, or its share of the cores. `ranks`: process
// group, or null for a single process.
int threads_of(const schema::Recipe& recipe, const backends::ProcessGroup* ranks);

// Returns the number of batches that a loader prepares ahead of time, and of its threads.
int64_t batches_ahead(const schema::Recipe& recipe);
int64_t loader_threads(const schema::Recipe& recipe);

// Whether a state must be saved by all ranks, or by none.
bool saves_together(const schema::Recipe& recipe);

backends::tpu::Generation generation_of(const schema::Recipe& recipe);
const backends::tpu::Dialect& dialect_of(const schema::Recipe& recipe);
backends::tpu::DeviceTypes device_types_of(const schema::Recipe& recipe);
// Whether the device keeps the user's f32 as bf16, so that the result of each op is rounded.
bool rounds_to_bf16(const schema::Recipe& recipe);
backends::tpu::ScalarRules scalar_rules_of(const schema::Recipe& recipe);

}  // namespace runner::train
