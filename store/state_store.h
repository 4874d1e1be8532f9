// Checkpoints (table `state`): named sections of bytes, split into chunks that are stored once per content.
//
// A checkpoint exists if and only if its transaction has committed. Every load verifies the SHA-256 of each chunk. A
// section that is unchanged since any earlier checkpoint takes no space for its bytes. A failed save leaves all
// committed data unchanged and may be repeated. Layout: docs/store.md. Thread safety: as for the given Store; a
// StateSnapshot belongs to one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "schema/base/large_array.h"
#include "store/run_store.h"

namespace runner::store {

inline constexpr size_t kStateChunkBytes = size_t{1} << 20;

// Properties of a checkpoint other than its sections.
struct StateHeader {
  int64_t step = 0;
  int64_t epoch = 0;
  std::string reason;                                   // "schedule", "end", "interrupt", "hook", …
  bool pinned = false;                                  // retention never removes it
  std::vector<std::pair<std::string, double>> metrics;  // newest values by name, for keep_best
  std::vector<std::string> names = {};                  // see is_state_name(); taken from earlier states of the run
};

// Borrowed section. `meta`: text of the caller (JSON with dtype and shape), returned unchanged.
// Packed like a Section.
struct SectionView {
  std::string_view name;  // unique in a checkpoint
  std::string_view meta;
  std::span<const std::byte> bytes;

  static auto parts(auto& self) { return std::tie(self.name, self.meta, self.bytes); }
};

struct Section {
  std::string name;
  std::string meta;
  std::vector<std::byte> bytes;

  static auto parts(auto& self) { return std::tie(self.name, self.meta, self.bytes); }
};

// A checkpoint to save: a copy, so that training may continue, except for sections that it is lent. clear() keeps the
// memory, so a reused snapshot allocates nothing.
class StateSnapshot {
 public:
  StateHeader header;

  void clear();
  // Reserves memory for the total size of the sections, so that adding them does not reallocate.
  void reserve(size_t bytes) { bytes_.reserve(bytes); }
  void add(std::string_view name, std::string_view meta, std::span<const std::byte> bytes);
  // Adds a section and returns its memory, which the caller fills before the next call.
  std::span<std::byte> add(std::string_view name, std::string_view meta, size_t bytes);
  // Adds a section whose contents stay where they are. They must not change until the snapshot has been saved.
  void lend(std::string_view name, std::string_view meta, std::span<const std::byte> bytes);
  // Valid until the next clear() or add().
  std::vector<SectionView> sections() const;
  size_t bytes() const { return bytes_.size(); }  // without lent sections

 private:
  struct Entry {
    std::string name, meta;
    size_t offset = 0, size = 0;
    const std::byte* lent = nullptr;  // null: the section is at `offset` of bytes_
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
  bool superseded = false;  // saved after the step from which a later attempt resumed
  int64_t bytes = 0;        // total size of the sections
  int64_t new_bytes = 0;    // size of the chunks that this save added to the store
  int64_t created_ms = 0;   // Unix time in ms
  std::vector<std::pair<std::string, double>> metrics;
  std::vector<std::string> names;  // sorted; retention never removes a checkpoint that has one
};

// "best", without or with a metric, selects a checkpoint by its metrics.
inline constexpr std::string_view kBestState = "best";
// Returns whether `selector` is "best" or begins as "best(METRIC)" does.
bool selects_best(std::string_view selector);
// Returns METRIC of "best(METRIC)"; none for any other text.
std::optional<std::string> best_metric(std::string_view selector);
// Returns whether a checkpoint may have this name: it is neither an id nor "best" nor "best(METRIC)".
bool is_state_name(std::string_view name);
// Returns whether `selector` is the id or a name of the checkpoint, or empty.
bool is_selected(const StateInfo& state, std::string_view selector);

// The names of checkpoints, for messages: "; its states are named 'best one', 'warm'", or nothing.
std::string named_states_text(std::span<const StateInfo> states);

struct LoadedState {
  StateInfo info;
  std::vector<Section> sections;  // in the order saved

  const Section* find(std::string_view name) const;  // null if there is none
  const Section& at(std::string_view name) const;    // throws Error(kStore) naming checkpoint and section
};

// Saves a checkpoint in one transaction; it is durable against power failure on return. Returns its description.
// `chunk_bytes`: largest size of a chunk; a chunk never spans sections. Throws Error(kStore), and then changes nothing.
StateInfo save_state(Store& store, const RunHandle& run, const StateHeader& header,
                     std::span<const SectionView> sections, size_t chunk_bytes = kStateChunkBytes);

using WantedSections = std::function<bool(std::string_view name)>;
// Reads a checkpoint, or those of its sections that `is_wanted` accepts by name. Verifies every chunk that it reads,
// and that no other is missing. Throws Error(kNotFound), or Error(kStore) naming the checkpoint, the section and the
// damaged chunk.
LoadedState load_state(Store& store, int64_t state_id, const WantedSections& is_wanted = nullptr);

// Reads one section of a checkpoint. Throws like load_state(), and Error(kStore) if there is no such section.
LoadedState load_section(Store& store, int64_t state_id, std::string_view name);

// Returns the checkpoints of a run, newest first. `for_resume`: omits superseded ones, so that a caller can try one
// after the other.
std::vector<StateInfo> list_states(Store& store, int64_t run_id, bool for_resume = false);

// Returns the value of a metric at the checkpoint, or NaN if there is none.
double metric_of(const StateInfo& state, std::string_view metric);
// Returns the checkpoints that have a value of the metric, best first; of equal ones, the older first. `states`: newest
// first.
std::vector<StateInfo> ranked(std::vector<StateInfo> states, std::string_view metric, bool maximize);

// Throws Error(kNotFound).
StateInfo find_state(Store& store, int64_t state_id);

}  // namespace runner::store
