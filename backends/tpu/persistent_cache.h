// What an emulated TPU keeps across processes. Damaged entries are reported and compiled again.
//
// Not thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/exec/plan.h"
#include "backends/tpu/graph.h"
#include "backends/tpu/lowered_graph.h"
#include "backends/tpu/tpu_device_model.h"

namespace runner::backends::tpu {

// Serialised entries of a persistent cache: a compilation result, preceded by everything it was made from.
//
// There are two kinds. An executable entry contains the host's plan of a step (PlanImage in exec/plan.h): the Program
// after the passes and the memory plan. A graph entry contains the hardware model's prediction of one graph. An entry
// begins with its inputs, which are compared in full. The rest is parsed strictly; the lifetimes of a plan are computed
// again and checked against its offsets. Thread-safe.

// Inputs of the host's executable of `program`. `graph`: the graph that the user's code would compile.
std::vector<std::byte> made_from(const Program& program, const Program& graph, const Hardware& hardware,
                                 const StateTensors& state_tensors);
// Inputs of a graph's prediction.
std::vector<std::byte> made_from(const GraphIdentity& graph, const Hardware& hardware,
                                 const StateTensors& state_tensors);

struct ExecutableEntry {
  PlanImage image;
  std::vector<std::string> warnings;  // padding warnings of the graph
};

// The read functions throw Error(kData) if the entry is damaged or was made from something else.
std::vector<std::byte> entry_of(EntryBytes made_from, const ExecutableEntry& executable);
ExecutableEntry read_executable(EntryBytes entry, EntryBytes made_from, const Program& program);
std::vector<std::byte> entry_of(EntryBytes made_from, const GraphPrediction& prediction);
GraphPrediction read_prediction(EntryBytes entry, EntryBytes made_from);

class PersistentCache {
 public:
  // Without a store, nothing is found and nothing is kept.
  explicit PersistentCache(const Hardware& hardware) : hardware_(hardware) {}

  // `store` must outlive the cache.
  void use(GraphStore& store) { store_ = &store; }
  bool is_on() const { return store_ != nullptr; }

  // At most one of the members is set.
  template <class Entry>
  struct Found {
    std::optional<Entry> entry;
    std::string damage;  // "entry 3f2a… of runner.db is damaged: …"; empty: not damaged, or no entry
  };

  struct LoadedExecutable {
    std::shared_ptr<Executable> host;
    std::vector<std::string> warnings;
  };
  Found<LoadedExecutable> find(const Program& program, const Program& graph, const StateTensors& state_tensors) const;
  void keep(const Program& program, const Program& graph, const StateTensors& state_tensors,
            const ExecutableEntry& executable) const;

  Found<GraphPrediction> find(const GraphIdentity& graph, const StateTensors& state_tensors) const;
  void keep(const GraphIdentity& graph, const StateTensors& state_tensors, const GraphPrediction& prediction) const;

 private:
  template <class Entry, class Read>
  Found<Entry> look_up(EntryBytes made_from, const Read& read) const;

  const Hardware& hardware_;
  GraphStore* store_ = nullptr;
};

}  // namespace runner::backends::tpu
