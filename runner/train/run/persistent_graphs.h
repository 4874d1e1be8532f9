// Persistent compilation cache of an emulated TPU in the run's store: finds entries, and collects new ones for the
// writer.
//
// The key of an entry is the SHA-256 of the binary and of the input, because another binary may compile differently.
// Not thread-safe.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "backends/tpu/tpu_device_model.h"
#include "store/compiled_graphs.h"

namespace runner::train {

class PersistentGraphs : public backends::tpu::GraphStore {
 public:
  // `store`: path, which need not exist yet. `binary`: identifies this program and the machine.
  PersistentGraphs(std::filesystem::path store, std::string binary);

  // Throws Error(kData) for a damaged entry and Error(kStore) if the file cannot be used.
  std::optional<std::vector<std::byte>> find(backends::tpu::EntryBytes made_from) override;
  std::string name_of(backends::tpu::EntryBytes made_from) const override;
  void put(backends::tpu::EntryBytes made_from, backends::tpu::EntryBytes entry) override;

  // Returns the new entries since the last call.
  store::CompiledGraphs take();

 private:
  Sha256Digest key_of(backends::tpu::EntryBytes made_from) const;

  const std::filesystem::path path_;
  const std::string binary_;
  std::optional<store::Store> store_;
  store::CompiledGraphs gathered_;
};

}  // namespace runner::train
