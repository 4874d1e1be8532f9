// Owner of a memory block: a name and the line of the recipe or hook that it comes from.
//
// Blocks store the OwnerId; the table stores each name once. Thread safety: one thread at a time.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "backends/gpu/caching_allocator.h"
#include "schema/base/source_mark.h"

namespace runner::backends::gpu {

struct MemoryOwner {
  std::string name;  // "parameters", "matmul"
  SourceMark line;

  // Example: "matmul (hook.lua:12)".
  std::string to_string() const;
};

class OwnerTable {
 public:
  // Returns the same id for the same name and line.
  OwnerId intern(std::string_view name, const SourceMark& line = {});
  const MemoryOwner& at(OwnerId id) const { return owners_[id]; }

 private:
  using Key = std::tuple<std::string, std::string, int, int>;
  std::map<Key, OwnerId> numbers_;
  std::vector<MemoryOwner> owners_;
};

}  // namespace runner::backends::gpu
