#include "runner/train/run/persistent_graphs.h"

#include <utility>

#include <fmt/format.h>

namespace runner::train {

PersistentGraphs::PersistentGraphs(std::filesystem::path store, std::string binary)
    : path_(std::move(store)), binary_(std::move(binary)) {}

std::optional<std::vector<std::byte>> PersistentGraphs::find(backends::tpu::EntryBytes made_from) {
  if (!store_) {
    if (!store::store_exists(path_)) return std::nullopt;
    store_.emplace(store::Store::open(path_, store::Access::kRead));
  }
  const Sha256Digest key = key_of(made_from);
  std::optional<std::vector<std::byte>> entry = store::find_compiled_graph(*store_, key);
  if (entry) gathered_.used.push_back(key);
  return entry;
}

std::string PersistentGraphs::name_of(backends::tpu::EntryBytes made_from) const {
  return fmt::format("entry {} of {}", hex(key_of(made_from)), path_.string());
}

void PersistentGraphs::put(backends::tpu::EntryBytes made_from, backends::tpu::EntryBytes entry) {
  gathered_.made.push_back({key_of(made_from), {entry.begin(), entry.end()}});
}

store::CompiledGraphs PersistentGraphs::take() {
  return std::exchange(gathered_, {});
}

Sha256Digest PersistentGraphs::key_of(backends::tpu::EntryBytes made_from) const {
  Sha256 hash;
  hash.update(binary_).update(std::string_view("\0", 1)).update(made_from);
  return hash.finish();
}

}  // namespace runner::train
