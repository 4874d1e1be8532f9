// States (checkpoints): named sections of bytes, cut into chunks that are kept once per content.
//
// A state exists if and only if its transaction is committed; its chunks carry SHA-256 digests that every load checks.
// A section that did not change since any earlier state costs only its digest.  A save that fails leaves everything
// that was committed as it was and may be repeated.  Layout: docs/store.md.
// Thread safety: as the Store given; a StateSnapshot belongs to one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "schema/large_array.h"
#include "store/run_store.h"

namespace runner::store {

inline constexpr size_t kStateChunkBytes = size_t{1} << 20;

// What a state is, besides its sections.
struct StateHeader {
  int64_t step = 0;
  int64_t epoch = 0;
  std::string reason;                                   // "schedule", "end", "interrupt", "hook", …
  bool pinned = false;                                  // never removed by retention
  std::vector<std::pair<std::string, double>> metrics;  // newest values by name, for keep_best
};

// Borrowed; `meta` is the caller's text (JSON with dtype and shape) and comes back as given.
struct SectionView {
  std::string_view name;  // unique in a state
  std::string_view meta;
  std::span<const std::byte> bytes;
};

struct Section {
  std::string name;
  std::string meta;
  std::vector<std::byte> bytes;
};

// An owned copy of a state that can be saved while training goes on.  clear() keeps the memory, so that a snapshot that
// is reused allocates nothing.
class StateSnapshot {
 public:
  StateHeader header;

  void clear();
  // Takes memory for so many bytes at once, so that none is taken twice while they are added.
  void reserve(size_t bytes) { bytes_.reserve(bytes); }
  void add(std::string_view name, std::string_view meta, std::span<const std::byte> bytes);
  // For `bytes` bytes, to be written before the next call.
  std::span<std::byte> add(std::string_view name, std::string_view meta, size_t bytes);
  // Valid until the next clear() or add().
  std::vector<SectionView> sections() const;
  size_t bytes() const { return bytes_.size(); }

 private:
  struct Entry {
    std::string name, meta;
    size_t offset = 0, size = 0;
  };
  std::vector<Entry> entries_;
  LargeArray<std::byte> bytes_;
};

struct StateInfo {
  int64_t id = 0;
  int64_t run_id = 0;
  std::string run;  // uid
  int64_t attempt = 0;
  int64_t step = 0;
  int64_t epoch = 0;
  std::string reason;
  bool pinned = false;
  bool superseded = false;  // written beyond the step from which a later attempt resumed
  int64_t bytes = 0;        // of all sections
  int64_t new_bytes = 0;    // of the chunks that were not in the store when it was saved
  int64_t created_ms = 0;   // since 1970, UTC
  std::vector<std::pair<std::string, double>> metrics;
};

struct LoadedState {
  StateInfo info;
  std::vector<Section> sections;  // in the order saved

  const Section* find(std::string_view name) const;  // null: none
  const Section& at(std::string_view name) const;    // throws Error(kStore): names state and section
};

// Saves in one transaction, durable against power loss when it returns.  Returns the state's description.  Sections are
// cut at `chunk_bytes`, never across sections.  Throws Error(kStore); nothing is changed then.
StateInfo save_state(Store& store, const RunHandle& run, const StateHeader& header,
                     std::span<const SectionView> sections, size_t chunk_bytes = kStateChunkBytes);

// Reads a state and checks every chunk.  Throws Error(kNotFound), or Error(kStore) that names the state, the section
// and the chunk that is damaged.
LoadedState load_state(Store& store, int64_t state_id);

// States of a run, newest first; `for_resume` leaves out superseded ones, so that a caller can fall back down the list.
std::vector<StateInfo> list_states(Store& store, int64_t run_id, bool for_resume = false);

// Throws Error(kNotFound).
StateInfo find_state(Store& store, int64_t state_id);

}  // namespace runner::store
