// What an emulated TPU keeps across processes. Damaged entries are reported and compiled again.
//
// Not thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/tpu/graph_entries.h"

namespace runner::backends::tpu {

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
