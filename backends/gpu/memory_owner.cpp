#include "backends/gpu/memory_owner.h"

#include <fmt/format.h>

namespace runner::backends::gpu {

std::string MemoryOwner::to_string() const {
  return line.known() ? fmt::format("{} ({})", name, line.to_string()) : name;
}

OwnerId OwnerTable::intern(std::string_view name, const SourceMark& line) {
  const auto next = static_cast<OwnerId>(owners_.size());
  const auto [entry, is_new] = numbers_.try_emplace({std::string(name), line.file, line.line, line.column}, next);
  if (is_new) owners_.push_back({std::string(name), line});
  return entry->second;
}

}  // namespace runner::backends::gpu
