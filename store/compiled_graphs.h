// Persistent compilation cache of the emulated TPU: graphs compiled by earlier runs (`tpu.persistent_cache`). Thread
// safety: as for the given Store.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "schema/base/sha256.h"
#include "store/store.h"

namespace runner::store {

struct CompiledGraph {
  Sha256Digest key{};
  std::vector<std::byte> entry;
};

// Graphs that a run compiled, and cached graphs that it used.
struct CompiledGraphs {
  std::vector<CompiledGraph> made;
  std::vector<Sha256Digest> used;

  bool empty() const { return made.empty() && used.empty(); }
};

// Returns the cached entry, or nullopt if there is none. Throws Error(kData) if its checksum does not match.
std::optional<std::vector<std::byte>> find_compiled_graph(Store& store, const Sha256Digest& key);

// Stores `graphs.made`, replacing entries with the same key, and sets the last use of `graphs.used` to now. Call it
// inside a transaction.
void put_compiled_graphs(Store& store, const CompiledGraphs& graphs);

// Cache limits. An entry is kept if a run used it within `age_ms`. If the kept entries exceed `bytes`, the least
// recently used ones are removed.
struct CompiledGraphLimits {
  int64_t age_ms = int64_t{30} * 24 * 3'600'000;
  int64_t bytes = int64_t{256} << 20;
};
// Removes the entries beyond the limits. Returns how many were removed.
int64_t trim_compiled_graphs(Store& store, const CompiledGraphLimits& limits = {});

}  // namespace runner::store
