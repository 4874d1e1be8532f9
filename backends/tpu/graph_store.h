// Where an emulated TPU finds what another process, or an earlier run, has compiled.
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
  // The entry of what was compiled from exactly these bytes; none: there is none.  Throws Error(kData) where it is not
  // as it was put.
  virtual std::optional<std::vector<std::byte>> find(EntryBytes made_from) = 0;
  // Of the entry, as messages name it: "entry 3f2a… of runner.db".
  virtual std::string name_of(EntryBytes made_from) const = 0;
  // Keeps an entry, in place of the one that there was.
  virtual void put(EntryBytes made_from, EntryBytes entry) = 0;
};

}  // namespace runner::backends::tpu
