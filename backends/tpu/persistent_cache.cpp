#include "backends/tpu/persistent_cache.h"

#include <fmt/format.h>

#include "backends/exec/cpu_device.h"

namespace runner::backends::tpu {

// Errors of the store itself do not count as damage of an entry.
template <class Entry, class Read>
PersistentCache::Found<Entry> PersistentCache::look_up(EntryBytes made_from, const Read& read) const {
  try {
    const std::optional<std::vector<std::byte>> bytes = store_->find(made_from);
    if (!bytes) return {};
    return {read(*bytes), ""};
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kStore) throw;
    return {std::nullopt, fmt::format("{} is damaged: {}", store_->name_of(made_from), error.message())};
  }
}

PersistentCache::Found<PersistentCache::LoadedExecutable> PersistentCache::find(
    const Program& program, const Program& graph, const StateTensors& state_tensors) const {
  if (!is_on()) return {};
  const std::vector<std::byte> from = made_from(program, graph, hardware_, state_tensors);
  return look_up<LoadedExecutable>(from, [&](EntryBytes bytes) {
    ExecutableEntry entry = read_executable(bytes, from, program);
    return LoadedExecutable{restore_executable(std::move(entry.image)), std::move(entry.warnings)};
  });
}

void PersistentCache::keep(const Program& program, const Program& graph, const StateTensors& state_tensors,
                           const ExecutableEntry& executable) const {
  if (!is_on()) return;
  const std::vector<std::byte> from = made_from(program, graph, hardware_, state_tensors);
  store_->put(from, entry_of(from, executable));
}

PersistentCache::Found<GraphPrediction> PersistentCache::find(const GraphIdentity& graph,
                                                              const StateTensors& state_tensors) const {
  const std::vector<std::byte> from = made_from(graph, hardware_, state_tensors);
  return look_up<GraphPrediction>(from, [&](EntryBytes bytes) { return read_prediction(bytes, from); });
}

void PersistentCache::keep(const GraphIdentity& graph, const StateTensors& state_tensors,
                           const GraphPrediction& prediction) const {
  if (!is_on()) return;
  const std::vector<std::byte> from = made_from(graph, hardware_, state_tensors);
  store_->put(from, entry_of(from, prediction));
}

}  // namespace runner::backends::tpu
