// What emulated TPUs have compiled, for later runs.  Thread safety: as the Store given.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "schema/sha256.h"
#include "store/store.h"

namespace runner::store {

struct CompiledGraph {
  Sha256Digest key{};
  std::vector<std::byte> entry;
};

// What a run has made and used since it was last asked.
struct CompiledGraphs {
  std::vector<CompiledGraph> made;
  std::vector<Sha256Digest> used;

  bool empty() const { return made.empty() && used.empty(); }
};

// Throws Error(kData) for an entry that is not as it was written.
std::optional<std::vector<std::byte>> find_compiled_graph(Store& store, const Sha256Digest& key);

// Inside a transaction.  What is made takes the place of what there was.
void put_compiled_graphs(Store& store, const CompiledGraphs& graphs);

// What of the entries stays: those that a run has used not longer ago than this, of these the ones used last, up to so
// many bytes.
struct CompiledGraphLimits {
  int64_t age_ms = int64_t{30} * 24 * 3'600'000;
  int64_t bytes = int64_t{256} << 20;
};
// Removes the others and returns how many.
int64_t trim_compiled_graphs(Store& store, const CompiledGraphLimits& limits = {});

}  // namespace runner::store
