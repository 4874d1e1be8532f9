// What each backend asks of a training, and what makes its devices: a row for each.
#pragma once

#include <memory>
#include <optional>

#include "backends/backend.h"
#include "backends/collectives/collectives.h"
#include "schema/recipe.h"

namespace runner::train {

struct DeviceRules {
  bool replicas_are_processes;  // else threads of one process, whose devices meet
  // Lazily, as PyTorch/XLA does: what the user's code records becomes graphs, which are compiled for good, cut at marks
  // and kept beyond the run, and whose numbers may be parts of them.
  bool traces_graphs;
  bool replicas_run_one_graph;  // which all must have traced alike
  bool has_loader;              // that brings batches to it ahead, with queues and threads
  bool has_bf16_floats;         // a recipe of bf16 makes all its numbers such, and needs no casts
  // For a replica; `ranks`: null, or all of them, which must outlive it.  `own_thread`: whether the device works on a
  // thread of its own beside the replica's; none: where there is a core for it.  Its workers take no signals.
  std::unique_ptr<backends::Device> (*make)(const schema::Recipe& recipe, backends::Collectives* ranks,
                                            std::optional<bool> own_thread);
};

const DeviceRules& device_rules(const schema::Recipe& recipe);

}  // namespace runner::train
