// Storage for what an emulated TPU has compiled, shared with other processes and later runs.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace runner::backends::tpu {

using EntryBytes = std::span<const std::byte>;

class GraphStore {
 public:
  virtual ~GraphStore() = default;
  // Returns the entry compiled from exactly these bytes, or nullopt. Throws Error(kData) if it is damaged.
  virtual std::optional<std::vector<std::byte>> find(EntryBytes made_from) = 0;
  // Name of the entry in messages: "entry 3f2a… of runner.db".
  virtual std::string name_of(EntryBytes made_from) const = 0;
  // Stores an entry, replacing a previous one.
  virtual void put(EntryBytes made_from, EntryBytes entry) = 0;
};

}  // namespace runner::backends::tpu
